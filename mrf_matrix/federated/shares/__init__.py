"""Noise in shares: what each party draws, and the law of the sum. All of it is public."""
