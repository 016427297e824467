"""Classifiers over releases and files made before."""
