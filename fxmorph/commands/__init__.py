"""One file a command: what the command line hands over to."""
