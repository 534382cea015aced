"""Solvers of complementarity problems on NumPy arrays: they know neither bodies nor time steps."""
