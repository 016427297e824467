"""The classifier to reach for: a table of rules names the kind of forest, without data."""
