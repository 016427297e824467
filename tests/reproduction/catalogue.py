"""All items: a module of a paper's folder lists its own."""

from federated_004 import table as federated_table
from forests_003 import disjoint, figure_1, figure_2, figures_3_4, optimiser, table_1
from item import Item
from multinomial_000_001 import (
    complexity,
    heterogeneous,
    private_trees,
    segmentation,
    selection,
    sets,
    sharpness,
    single_trees,
    tables,
    tuned,
)
from rates_002 import lemmas, rates, theorems, ties

ITEMS: tuple[Item, ...] = (
    *figure_1.ITEMS,
    *figure_2.ITEMS,
    *disjoint.ITEMS,
    *figures_3_4.ITEMS,
    *table_1.ITEMS,
    *optimiser.ITEMS,
    *sets.ITEMS,
    *tables.ITEMS,
    *selection.ITEMS,
    *single_trees.ITEMS,
    *sharpness.ITEMS,
    *private_trees.ITEMS,
    *tuned.ITEMS,
    *heterogeneous.ITEMS,
    *complexity.ITEMS,
    *segmentation.ITEMS,
    *theorems.ITEMS,
    *rates.ITEMS,
    *lemmas.ITEMS,
    *ties.ITEMS,
    *federated_table.ITEMS,
)
BY_NAME = {item.name: item for item in ITEMS}


def named(name: str) -> tuple[Item, ...]:
    """Return one item by its name, or all."""
    if name == "all":
        return ITEMS
    if name not in BY_NAME:
        raise SystemExit(
            f"no item {name!r}: expected 'all', 'list', 'pages', 'stale' or one of {[*BY_NAME]}"
        )
    return (BY_NAME[name],)
