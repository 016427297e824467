"""Growing forests from records: split rules, search for splits, and two engines, one private."""
