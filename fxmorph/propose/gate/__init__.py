"""Every proposal, from wherever it comes, is decided about here."""
