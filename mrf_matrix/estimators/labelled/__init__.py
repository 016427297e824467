"""A tree of few cells, drawn with their labels."""
