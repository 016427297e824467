"""What only the worst row or group of rows asks for."""
