"""Scalar claims in SMT: what operators mean, and the solvers that decide."""
