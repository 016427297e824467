"""Tuning without data."""
