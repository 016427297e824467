"""Choices made privately: exact coins, the exponential mechanism, permute-and-flip."""
