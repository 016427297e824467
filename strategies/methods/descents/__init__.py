"""The searches that several families share."""
