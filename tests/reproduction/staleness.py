"""Whether the code that a record's figures rest on changed after they were computed.

The subject of an item is what its quick run really enters: functions and classes of the library
and of its own module, with the constants that they name. Texts, claims and the papers' numbers are
no part of it, nor are docstrings, comments and types in imports. All that a file imports would be
too much: every classifier imports most of the library.
"""

import ast
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

from commits import CODE, ROOT, bare, changed_files, git

Subject = dict[str, frozenset[str]]
"""File, from the root of the checkout, to the names at its top that figures rest on."""


def code_entered(work: FunctionType) -> set[CodeType]:
    """Return the code of every Python function that ``work`` enters, but its own."""
    found: set[CodeType] = set()

    def note(frame, event, argument) -> None:
        if event == "call":
            found.add(frame.f_code)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return found - {work.__code__}


def subject_of(work: FunctionType, root: Path = ROOT) -> Subject:
    """Return what ``work`` rests on: definitions that it enters, and constants named there."""
    left = {
        (file, name)
        for code in code_entered(work)
        if (file := file_within(code.co_filename, root)) is not None
        for name in names_at((root / file).read_text(), code.co_firstlineno)
    }
    found: set[tuple[str, str]] = set()
    while left:
        found |= left
        left = {one for pair in left for one in constants_of(*pair, root)} - found
    return {
        file: frozenset(name for place, name in found if place == file)
        for file in sorted({file for file, _ in found})
    }


def file_within(name: str, root: Path) -> str | None:
    """Return a file of our code by its path from the root; None for others."""
    path = Path(name)
    if not path.is_relative_to(root):
        return None
    file = path.relative_to(root).as_posix()
    return file if file.startswith(tuple(f"{folder}/" for folder in CODE)) else None


def names_at(source: str, line: int) -> list[str]:
    """Return the name of the definition at the top of a file that a line stands in."""
    return [
        name
        for name, node in definitions(source).items()
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and min([node.lineno, *(one.lineno for one in node.decorator_list)]) <= line
        and line <= (node.end_lineno or 0)
    ]


def constants_of(file: str, name: str, root: Path) -> Iterator[tuple[str, str]]:
    """Yield the constants, with their files, that a definition names."""
    source = (root / file).read_text()
    node = definitions(source).get(name)
    for word in {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} if node else ():
        place, known = file, word
        if word in imported(source):
            module, known = imported(source)[word]
            place = file_of(module, root) or ""
        if place and is_constant(definitions((root / place).read_text()).get(known)):
            yield place, known


def is_constant(node: ast.stmt | None) -> bool:
    """Return whether a definition is an assignment."""
    return isinstance(node, ast.Assign | ast.AnnAssign)


def file_of(module: str, root: Path) -> str | None:
    """Return the file of a module of ours, or None."""
    for folder in ("", "tests/reproduction/"):
        file = f"{folder}{module.replace('.', '/')}.py"
        if (root / file).is_file():
            return file
    return None


@cache
def definitions(source: str) -> dict[str, ast.stmt]:
    """Return the functions, classes and constants at the top of a file, without docstrings."""
    found: dict[str, ast.stmt] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = without_docstrings(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one for target in targets for one in ast.walk(target)]
            found |= {one.id: node for one in names if isinstance(one, ast.Name)}
    return found


def without_docstrings(node: ast.stmt) -> ast.stmt:
    """Return a definition less the texts that stand alone in it, which do nothing."""
    for one in ast.walk(node):
        body = getattr(one, "body", None)
        if isinstance(body, list):
            one.body = [line for line in body if not is_text(line)]  # type: ignore[attr-defined]
    return node


def is_text(node: ast.AST) -> bool:
    """Return whether a line is a text and nothing else."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


@cache
def imported(source: str) -> dict[str, tuple[str, str]]:
    """Return the module, and the name there, of every name that a file imports from one."""
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def changes_since(commit: str, subject: Subject, root: Path = ROOT) -> dict[str, list[str]] | None:
    """Return, by file, what differs of a subject from a commit; None where git cannot tell."""
    changed = changed_files(commit, root)
    if changed is None:
        return None
    found = {}
    for file, names in subject.items():
        if file in changed:
            then, now = changed[file], definitions((root / file).read_text())
            old = definitions((then and git(root, "show", f"{bare(commit)}:{then}")) or "")
            found[file] = sorted(name for name in names if not same(old.get(name), now[name]))
    return {file: names for file, names in found.items() if names}


def same(one: ast.stmt | None, other: ast.stmt) -> bool:
    """Return whether two definitions do the same, line by line."""
    return one is not None and ast.dump(one) == ast.dump(other)
