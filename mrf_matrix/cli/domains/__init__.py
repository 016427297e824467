"""`mrf-matrix domain`: write, check and show the public domain."""
