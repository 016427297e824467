"""All items: a module of a paper's folder lists its own."""

from federated_004 import table as federated_table
from item import Item
from multinomial_000_001 import (
    heterogeneous,
    private_trees,
    selection,
    sets,
    sharpness,
    single_trees,
    tuned,
)

ITEMS: tuple[Item, ...] = (
    *sets.ITEMS,
    *selection.ITEMS,
    *single_trees.ITEMS,
    *sharpness.ITEMS,
    *private_trees.ITEMS,
    *tuned.ITEMS,
    *heterogeneous.ITEMS,
    *federated_table.ITEMS,
)
BY_NAME = {item.name: item for item in ITEMS}


def named(name: str) -> tuple[Item, ...]:
    """Return one item by its name, or all."""
    if name == "all":
        return ITEMS
    if name not in BY_NAME:
        raise SystemExit(
            f"no item {name!r}: expected 'all', 'list', 'pages' or one of {[*BY_NAME]}"
        )
    return (BY_NAME[name],)
