"""Where a design becomes a strategy and a mechanism."""
