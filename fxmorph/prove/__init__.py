"""Proofs that a rewrite keeps what it says it keeps (docs/what-the-proof-assumes.md)."""
