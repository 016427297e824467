"""Budgets of given rows by conic programming, under a user's own affine constraints."""
