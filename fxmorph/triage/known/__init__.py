"""Public issues that a finding is, shown by a mend of torch, and such as it may be."""
