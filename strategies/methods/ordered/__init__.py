"""Strategies for ordered cells: windows, trees, and the optimum for Gaussian noise."""
