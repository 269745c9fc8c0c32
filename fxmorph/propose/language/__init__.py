"""The restricted language that proposals are written in."""
