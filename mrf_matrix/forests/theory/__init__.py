"""Bounds, heights and diameters of random trees."""
