"""Oracles: one file each, discovered by ``fxmorph.oracle.load_oracles``."""
