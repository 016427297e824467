"""A forest of tables, each of what earlier ones leave unexplained."""
