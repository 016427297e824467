"""Models as files for anyone."""
