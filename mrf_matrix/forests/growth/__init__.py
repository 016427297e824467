"""Growing forests from records: laws, split search, and the two engines, public and private."""
