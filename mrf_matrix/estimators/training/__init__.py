"""Classifiers that measure the training table."""
