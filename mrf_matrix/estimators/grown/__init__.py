"""Classifiers over forests grown from records, by noise or without."""
