"""Front doors of rooms: names that load the file they live in when they are first used.

A room's ``__init__`` runs whenever any of its files is imported, so one that imports all of them
makes every part of the library pay for all others. These doors name the files, and open late.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from linecache import getlines
from typing import Any


def front_door(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package (PEP 562).

    `package`: the package's ``__name__``. Its names are those that its ``__init__`` imports under
    TYPE_CHECKING: what type checkers read is what is promised. A name that is also a module of the
    package itself cannot stand in a door: importing the module would hide it.

    Examples
    --------
    >>> look_up, _, names = front_door("mrf_matrix")
    >>> look_up("Domain").from_sizes([2, 3]).size, "Domain" in names
    (6, True)
    """
    room = sys.modules[package]
    source = "".join(getlines(str(room.__file__), vars(room)))
    guards = [node for node in ast.parse(source).body if is_guard(node)]
    imports = [node for guard in guards for node in ast.walk(guard)]
    home = {
        alias.name: node.module
        for node in imports
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }

    def look_up(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    def names_here() -> list[str]:
        return sorted(home)  # public names only

    return look_up, names_here, sorted(home)


def is_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
