"""Graphs on which a pass fires, made from the pass itself."""
