"""What no strategy can beat."""
