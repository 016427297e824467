"""Weighted marginals over a product domain."""
