"""Workloads over ordered cells, and strategies for them."""
