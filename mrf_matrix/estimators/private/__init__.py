"""The classifier to reach for: it plans every kind of forest without data, and takes the best."""
