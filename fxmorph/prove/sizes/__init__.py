"""Tensors of unknown sizes."""
