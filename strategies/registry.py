"""The families that `select` knows, in the order in which a portfolio runs them."""

from strategies import identity, marginals, workload_itself
from strategies.family import Family

FAMILIES: tuple[Family, ...] = (identity.FAMILY, workload_itself.FAMILY, marginals.FAMILY)


def families() -> tuple[str, ...]:
    """Return the names that ``select(method=...)`` accepts beside "auto".

    Examples
    --------
    >>> "identity" in families()
    True
    """
    return tuple(family.name for family in FAMILIES)


def family_named(name: str) -> Family:
    """Return a family by name, or refuse and list the names."""
    for family in FAMILIES:
        if family.name == name:
            return family
    raise ValueError(f"method={name!r}: expected 'auto' or one of {', '.join(families())}.")
