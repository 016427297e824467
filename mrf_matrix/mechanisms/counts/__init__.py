"""Records as exact counts of cells."""
