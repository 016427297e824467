"""What all classifiers do alike: parameters, budgets, releases kept."""
