"""Growing under differential privacy."""
