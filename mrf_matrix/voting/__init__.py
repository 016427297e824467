"""Leaf values, votes, labels, and what noise leaves unknown."""
