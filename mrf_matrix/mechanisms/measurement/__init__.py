"""Calibrate, measure, release, reconstruct."""
