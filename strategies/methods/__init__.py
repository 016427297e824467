"""Strategy families, and their registry."""

from strategies.methods.family import Family, Search
from strategies.methods.registry import families

__all__ = ["Family", "Search", "families"]
