"""Front doors of rooms: names that load the file they live in when they are first used.

A room's ``__init__`` runs whenever any of its files is imported, so one that imports all of them
makes every part of the library pay for all others. These doors name the files, and open late.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def front_door(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package (PEP 562).

    `package`: the package's ``__name__``; `homes`: modules, named from the package on, and the
    public names that live there. A name that is also a module of the package itself cannot stand in
    a door: importing the module would hide it.

    Examples
    --------
    >>> look_up, _, names = front_door("mrf_matrix", {"domain.domain": ["Domain"]})
    >>> look_up("Domain").from_sizes([2, 3]).size, names
    (6, ['Domain'])
    """
    home = {name: f"{package}.{module}" for module, names in homes.items() for name in names}

    def look_up(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    def names_here() -> list[str]:
        return sorted(home)  # public names only

    return look_up, names_here, sorted(home)
