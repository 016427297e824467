"""Pages for whoever answers for a release."""
