"""Forests whose structure is learnt from records."""
