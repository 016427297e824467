"""Secure sums: signed messages, masks and shares of their seeds, as pure functions of states."""
