"""Classifiers that measure the answers of a batch."""
