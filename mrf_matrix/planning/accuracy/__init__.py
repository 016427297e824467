"""Accuracy expected under a public prior."""
