"""Proposals: rules, recipes, seeds and mutations as data, and the gate that decides about them."""
