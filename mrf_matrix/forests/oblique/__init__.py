"""Trees whose nodes are cut by hyperplanes: no paths, no matrix, not private."""
