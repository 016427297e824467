"""One ledger of every charge."""
