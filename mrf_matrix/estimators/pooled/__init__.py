"""A tree of labels and tables, asked together."""
