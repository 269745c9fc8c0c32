"""A pass of the user's on the graphs of programs."""
