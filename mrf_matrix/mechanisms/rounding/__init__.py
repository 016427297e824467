"""Strategies in exact integers."""
