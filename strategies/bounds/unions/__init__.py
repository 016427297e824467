"""Unions of Kronecker products: weights of cells for their frames, and what these prove."""
