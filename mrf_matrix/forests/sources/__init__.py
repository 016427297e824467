"""Public path sources."""
