"""Proofs about rules.  The solver is imported here and nowhere else."""
