"""Judging a compiled run against eager and fp64 references, in the order of ``docs/policy.md``."""
