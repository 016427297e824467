"""A tree of four public cells that release their labels alone."""
