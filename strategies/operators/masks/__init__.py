"""0/1 rows over domains of any size: Kronecker products of masks."""
