"""Seed programs and regressions of fxmorph; the files below are data, loaded by path and never imported from here."""
