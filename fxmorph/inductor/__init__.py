"""Inductor from inside: its units, one unit alone on a graph, the graphs that a compile passes through."""
