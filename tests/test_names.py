"""Names of functions, read: each says what it returns or does (docs/design.md, Words)."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(
    path for package in ("strategies", "mrf_matrix") for path in (ROOT / package).rglob("*.py")
)

PARTICIPLE = re.compile(r"\w+(ed|ing)")
IRREGULAR = """
begun bought bound built caught chosen cut dealt drawn felt found given gone grown held hidden hung
kept known laid led left let lost made meant met paid put read run said seen sent set shown shut
sold sought split spoken spent spread stood sunk swept taken taught thought thrown told torn
understood undrawn unread unsaid unseen won worn woven written
"""
NOUNS_AND_VERBS = """
bound cut embed encoding feed left meaning need neighboring put read ring run seed set setting
spacing speed spending split spread string
"""
"""Words of these shapes that are no participles, or nouns and verbs as they stand."""
INHERITED = frozenset({"on_broken_pipe"})
"""Names that another library's class asks for."""
PREPOSITIONS = """
above after along among at before behind below beside between beyond by for in into near of off on
out over since than through till toward under until up upon via within
"""


@cache
def public_names() -> frozenset[str]:
    """Return the names that documented doors export, with those of their classes' members."""
    known = set(re.findall(r"[\w.]+", (ROOT / "docs" / "api" / "index.md").read_text()))
    names: set[str] = set()
    for path in FILES:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if path.name == "__init__.py" and module in known:
            room = importlib.import_module(module)
            for name in room.__all__:
                names |= {name, *dir(getattr(room, name))}
    return frozenset(name for name in names if not name.startswith("_"))


def is_unclear(name: str) -> bool:
    """Return whether a function's name is a lone participle, or begins with a preposition."""
    if name.startswith("__"):
        return False
    first, *others = name.strip("_").split("_")
    if first in PREPOSITIONS.split():
        return bool(others) or first != "of"
    is_participle = PARTICIPLE.fullmatch(first) is not None or first in IRREGULAR.split()
    return not others and is_participle and first not in NOUNS_AND_VERBS.split()


def unclear_names(tree: ast.Module) -> list[str]:
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return sorted(
        {one.name for one in functions if is_unclear(one.name)} - public_names() - INHERITED
    )


def test_functions_are_named_by_what_they_return_or_do() -> None:
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in FILES}
    found = {path: unclear_names(tree) for path, tree in trees.items()}
    assert {path: names for path, names in found.items() if names} == {}


def test_an_unclear_name_is_seen() -> None:
    names = ["_rounded", "_by_rows", "_told", "round_rows", "to_rows", "of", "__missing__"]
    source = "\n".join(f"def {name}(): ..." for name in names)
    assert unclear_names(ast.parse(source)) == ["_by_rows", "_rounded", "_told"]
