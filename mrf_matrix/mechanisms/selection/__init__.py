"""Choices made privately: exact coins and the exponential mechanism."""
