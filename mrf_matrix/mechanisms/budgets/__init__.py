"""Exact budgets, their conversion, and neighbouring relations."""
