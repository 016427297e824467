"""Strategies for workloads over ordered cells: windows, trees, and the optimum for Gaussian noise."""
