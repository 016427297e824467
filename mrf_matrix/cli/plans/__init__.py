"""`mrf-matrix plan` and `tune`: what is known without data."""
