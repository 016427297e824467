"""Strategies of combined paths."""
