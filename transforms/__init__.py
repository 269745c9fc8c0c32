"""Rewrite rules, one file per family member; each class is one equivalence (see ``fxmorph.rules``)."""
