"""What a finding leaves on disk, and running it again."""
