"""Every element of memory is the name of the term that computes it."""
