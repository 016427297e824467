"""A tree of few public cells that release their labels alone."""
