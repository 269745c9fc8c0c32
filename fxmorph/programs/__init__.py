"""A program, its graph and its inputs, and what calling it shows."""
