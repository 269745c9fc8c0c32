"""Graphs made from pattern entries, on which they fire."""
