"""A tree of few cells and their labels."""
