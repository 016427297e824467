"""Least squares under whatever is publicly known of the counts."""
