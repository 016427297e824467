"""The import table of docs/design.md and the bounds of dependencies, enforced."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("strategies", "mrf_matrix")

MOST_FILES = 16
"""Files in one folder, beside its folders."""
MOST_LINES = 450
"""Lines of a chapter."""


def import_table() -> dict[str, set[str]]:
    """Return part -> the other parts it may import, as docs/design.md says."""
    text = (ROOT / "docs" / "design.md").read_text()
    table: dict[str, set[str]] = {}
    for part, allowed in re.findall(r"^\| `([\w.]+)` \| (.+) \|$", text, re.MULTILINE):
        above = set(table) if allowed.startswith("all above") else set()
        table[part] = above | set(re.findall(r"`([\w.]+)`", allowed))
    return table


MAY_IMPORT = import_table()

# third-party packages that only some parts may import
ONLY_IN = {
    "sklearn": {
        "mrf_matrix.datasets",
        "mrf_matrix.estimators",
        "mrf_matrix.forests",
        "mrf_matrix.study",
    },
    "matplotlib": {"mrf_matrix.plotting"},
    "cvxpy": {"strategies.allocation", "mrf_matrix.reconstruction"},
    "opendp": {"mrf_matrix.mechanisms"},
    "dp_accounting": {"mrf_matrix.mechanisms"},
    "click": {"mrf_matrix.cli"},
    "cryptography": {"mrf_matrix.federated"},
    "flwr": {"mrf_matrix.federated"},
    "dask": {"mrf_matrix.streams"},
    "distributed": {"mrf_matrix.streams"},
    "pandas": set(),
}
# imported inside functions only, so that loading a package stays light
LAZY = {"matplotlib", "cvxpy", "opendp", "dp_accounting", "flwr", "dask", "narwhals"}

FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def within(module: str, part: str) -> bool:
    return module == part or module.startswith(part + ".")


def part_of(module: str) -> str:
    """Return the table row that a module belongs to: the longest that it stands in."""
    return max((part for part in MAY_IMPORT if within(module, part)), key=len)


def module_of(path: Path) -> str:
    pieces = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(pieces[:-1] if pieces[-1] == "__init__" else pieces)


def row_of(path: Path) -> str:
    """Return the row of a file: a folder of either package must stand in a row of its own."""
    row = part_of(module_of(path))
    if row in PACKAGES and path.parent != ROOT / row:
        raise AssertionError(f"{path.relative_to(ROOT)} stands in no row of the import table")
    return row


HOLD_STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)


def is_typing_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports_of(tree: ast.Module) -> list[tuple[str, bool]]:
    """Return (module, at top level) for every import that runs."""
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, top: bool) -> None:
        if is_typing_guard(node):
            return
        if isinstance(node, ast.Import):
            found.extend((alias.name, top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.append((node.module or "", top))
            found.extend((f"{node.module}.{alias.name}", top) for alias in node.names)
        inner = top and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, HOLD_STATEMENTS):  # no import stands in an expression
                visit(child, inner)

    visit(tree, True)
    return found


def violations(path: Path, tree: ast.Module) -> list[str]:
    """Return what a file imports against the table."""
    row = row_of(path)
    wrong = []
    for module, top in imports_of(tree):
        package = module.split(".")[0]
        if package in PACKAGES:
            part = part_of(module)
            inside = within(part, row) and row != part  # a room may use the rooms in it
            if part != row and not inside and not any(within(part, one) for one in MAY_IMPORT[row]):
                wrong.append(f"{row} imports {module}")
        elif package in ONLY_IN and not any(within(row, one) for one in ONLY_IN[package]):
            wrong.append(f"{row} imports {package}")
        if package in LAZY and top:
            wrong.append(f"{package} is imported at module level")
    return wrong


def test_imports_follow_the_table() -> None:
    found = {str(path.relative_to(ROOT)): violations(path, tree_of(path)) for path in FILES}
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_the_table_catches_a_violation() -> None:
    def wrong(path: str, source: str) -> list[str]:
        return violations(ROOT / path, ast.parse(source))

    operators, problem = "strategies/operators/dense.py", "strategies/problem/problem.py"
    assert wrong(operators, "import mrf_matrix.domain")
    assert wrong(operators, "from strategies.search import select")
    assert not wrong(operators, "from strategies.operators.base.arrays import fits")
    assert wrong(problem, "from strategies.bounds.lower_bound import lower_bound")
    assert not wrong(problem, "from strategies.operators import Operator")
    assert wrong("mrf_matrix/domain/domain.py", "import sklearn")
    assert wrong("mrf_matrix/plotting/style.py", "import matplotlib")
    for package in PACKAGES:
        with pytest.raises(AssertionError, match="no row"):
            wrong(f"{package}/helpers/names.py", "")


def names_imported(path: Path) -> list[tuple[str, str, str]]:
    """Return (module, name, name here) of every ``from module import name`` of a file."""
    nodes = ast.walk(tree_of(path))
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return [(n.module or "", a.name, a.asname or a.name) for n in froms for a in n.names]


def modules_imported(path: Path) -> set[str]:
    """Return the modules of every ``import module`` of a file."""
    nodes = ast.walk(tree_of(path))
    return {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}


@cache
def doors() -> dict[str, dict[str, str]]:
    """Return, for every room's ``__init__``, the names it re-exports and their modules."""
    return {
        module_of(path): {here: module for module, _, here in names_imported(path)}
        for path in FILES
        if path.name == "__init__.py"
    }


def files_behind(module: str, name: str, known: set[str], rooms: dict[str, dict[str, str]]) -> str:
    """Return the file that a name comes from, through the doors of rooms."""
    while f"{module}.{name}" not in known and name in rooms.get(module, {}):
        module = rooms[module][name]
    return f"{module}.{name}" if f"{module}.{name}" in known else module


def import_graph(package: str) -> dict[str, set[str]]:
    """Return file -> files that it imports, in functions and for type checkers too."""
    rooms = doors()
    paths = {module_of(path): path for path in FILES if path.name != "__init__.py"}
    known, graph = set(paths), {}
    for module, path in paths.items():
        if within(module, package):
            froms = names_imported(path)
            used = {files_behind(home, name, known, rooms) for home, name, _ in froms}
            graph[module] = ((used | modules_imported(path)) & known) - {module}
    return graph


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return files that import each other in a circle, none where there is no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_files_import_each_other_in_a_circle(package: str) -> None:
    graph = import_graph(package)
    assert circle(graph) == []


def test_circles_are_seen() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}
    graph = import_graph("strategies")
    assert "strategies.problem.problem" in graph["strategies.search.select"]
    door = "strategies.operators.explicit"  # which is met through the front door
    assert door in graph["strategies.methods.free_entries"]
    graph["strategies.operators.base.arrays"] |= {"strategies.search.select"}
    assert circle(graph)


def test_rooms_can_be_held_in_mind() -> None:
    counts = Counter(
        path.parent.relative_to(ROOT).as_posix() for path in FILES if path.name != "__init__.py"
    )
    assert not {room for room, count in counts.items() if count > MOST_FILES}


def test_chapters_can_be_read_at_a_sitting() -> None:
    lengths = {module_of(path): len(path.read_text().splitlines()) for path in FILES}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def modules_loaded_by(statement: str, beside: str = "pass") -> set[str]:
    """Return the modules that a statement loads in a new process after ``beside``."""
    code = f"import sys; {beside}; known = set(sys.modules); {statement}; "
    code += "print(' '.join(set(sys.modules) - known))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def loaded_by(statement: str) -> set[str]:
    return {name.split(".")[0] for name in modules_loaded_by(statement)}


def test_importing_strategies_is_light() -> None:
    loaded = modules_loaded_by("import strategies")
    assert loaded.isdisjoint({"sklearn", "cvxpy", "mrf_matrix", "matplotlib", "pandas", "rich"})
    assert loaded.isdisjoint({"scipy.optimize", "scipy.stats", "scipy.spatial"})


def test_importing_mrf_matrix_is_light() -> None:
    loaded = loaded_by("import mrf_matrix; mrf_matrix.plan, mrf_matrix.tune, mrf_matrix.Domain")
    assert loaded.isdisjoint({"sklearn", "cvxpy", "opendp", "dp_accounting", "matplotlib"})
    assert loaded.isdisjoint({"narwhals", "pandas", "polars"})  # old scikit-learn loads none either


def test_the_list_of_commands_loads_neither_numpy_nor_data_sets() -> None:
    loaded = modules_loaded_by(
        "sys.argv = ['mrf-matrix', '--help']; import atexit; "
        "atexit.register(lambda: print(' '.join(set(sys.modules) - known))); "
        "import mrf_matrix.cli.main as cli; cli.main()"
    )
    assert "mrf_matrix.cli.main" in loaded
    heavy = {"numpy", "scipy", "rich", "strategies", "sklearn", "pandas"}
    assert loaded.isdisjoint(heavy)
    rooms = {name.split(".")[1] for name in loaded if within(name, "mrf_matrix") and "." in name}
    assert rooms == {"base", "cli"}


def test_help_of_a_command_loads_domains_and_files_alone() -> None:
    loaded = modules_loaded_by("import mrf_matrix.cli.main, mrf_matrix.cli.fit")
    assert {name.split(".")[0] for name in loaded}.isdisjoint(
        {"scipy", "sklearn", "pandas", "polars", "narwhals", "opendp", "strategies"}
    )
    assert sum(within(name, "mrf_matrix") for name in loaded) <= 42


def test_a_classifier_loads_little_beside_scikit_learn() -> None:
    loaded = modules_loaded_by(
        "from mrf_matrix import MatrixForestClassifier",
        beside="import sklearn.base, sklearn.utils.multiclass",
    )
    ours = {name for name in loaded if name.split(".")[0] in PACKAGES}
    assert len(ours) <= 230  # of some 310 files
    assert {name.split(".")[0] for name in loaded - ours} <= {"fractions", "joblib"}
    assert loaded.isdisjoint({"sklearn.ensemble", "sklearn.tree", "sklearn.model_selection"})


def test_doors_open_on_what_they_promise() -> None:
    """What type checkers read in a door and what it loads are one list."""
    for door, names in doors().items():
        promised = {name: module for name, module in names.items() if "front_door" not in name}
        promised.pop("TYPE_CHECKING", None)
        if not promised or not within(door, "mrf_matrix"):
            continue
        room = importlib.import_module(door)
        assert (door, sorted(room.__all__)) == (door, sorted(promised))
        for name, module in promised.items():
            assert getattr(room, name) is getattr(importlib.import_module(module), name), door
            assert name in dir(room), door
        with pytest.raises(AttributeError, match="no_such_name"):
            _ = room.no_such_name


def test_planning_a_federation_needs_no_cryptography() -> None:
    loaded = loaded_by("import mrf_matrix.federated")
    assert loaded.isdisjoint({"cryptography", "flwr", "sklearn", "opendp"})


def test_every_public_name_loads() -> None:
    import mrf_matrix

    for name in mrf_matrix.__all__:
        assert getattr(mrf_matrix, name) is not None
        assert name in dir(mrf_matrix)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = mrf_matrix.no_such_name


def undocumented(room: ModuleType) -> list[str]:
    """Return the names of a door, and of its classes' methods, that have no docstring."""
    names = {f"{room.__name__}.{name}": getattr(room, name) for name in room.__all__}
    classes = [(name, value) for name, value in names.items() if isinstance(value, type)]
    for name, value in classes:
        public = {one for one in vars(value) if not one.startswith("_")}
        fields = set(getattr(value, "__dataclass_fields__", {}))
        names |= {f"{name}.{one}": getattr(value, one) for one in public - fields}
    described = (type, FunctionType, property, cached_property)
    said = {name: one for name, one in names.items() if isinstance(one, described)}
    return sorted(name for name, one in said.items() if not inspect.getdoc(one))


DOCUMENTED = sorted(
    set(map(module_of, FILES)) & set((ROOT / "docs" / "api" / "index.md").read_text().split())
)
"""Packages of the API's page: names that their doors export are public."""


@pytest.mark.parametrize("door", DOCUMENTED)
def test_documented_names_say_what_they_do(door: str) -> None:
    assert undocumented(importlib.import_module(door)) == []


def test_a_name_without_a_docstring_is_seen() -> None:
    room = ModuleType("room")
    room.silent, room.__all__ = lambda: None, ["silent"]
    assert undocumented(room) == ["room.silent"]


STATEMENT = "mrf_matrix.mechanisms.statement"
"""The only module that forms a claim of privacy."""


def texts_of(tree: ast.Module) -> list[str]:
    """Return the texts of a file that are no docstrings: what it may say to somebody."""
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef)
    documented = {id(node.body[0]) for node in ast.walk(tree) if isinstance(node, holders)}
    said = [
        node.value
        for parent in ast.walk(tree)
        for node in ast.iter_child_nodes(parent)
        if isinstance(node, ast.Constant) and not isinstance(parent, ast.Expr)
    ]
    assert documented
    return [text for text in said if isinstance(text, str)]


def privacy_formed(tree: ast.Module) -> list[str]:
    """Return the definitions of `is_private` that are more than another's."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "is_private":
            last = ast.unparse(node.body[-1])
            passed_on = re.fullmatch(r"return (self\.[\w.]+\.is_private|protects\(.*\))", last)
            summed = "all((charge.is_private for charge in" in last
            if not (passed_on or summed):
                found.append(last)
    return found


def test_claims_are_formed_in_one_place() -> None:
    for path in FILES:
        if within(module_of(path), "strategies") or module_of(path) == STATEMENT:
            continue
        tree = tree_of(path)
        claims = [text for text in texts_of(tree) if "private release" in text.lower()]
        assert (path.name, claims) == (path.name, [])
        assert (path.name, privacy_formed(tree)) == (path.name, [])


def test_a_claim_formed_elsewhere_is_seen() -> None:
    mine = ast.parse('def f(x):\n    """A private release."""\n    return f"Private release: {x}"')
    assert [one for one in texts_of(mine) if "rivate release" in one] == ["Private release: "]
    lax = "class A:\n    @property\n    def is_private(self):\n        return self.noise == 'exact'"
    assert privacy_formed(ast.parse(lax))


def test_the_front_door_has_forty_names() -> None:
    import mrf_matrix

    assert len(mrf_matrix.__all__) <= 40


# Dependencies -------------------------------------------------------------------------------------


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PAGE = (ROOT / "docs" / "dependencies.md").read_text("utf-8").lower()
EXTRAS = PROJECT["optional-dependencies"]


@pytest.mark.parametrize("requirement", PROJECT["dependencies"])
def test_a_dependency_has_its_row(requirement: str) -> None:
    name, bound = requirement.split(">=")
    assert f"| {name} | {bound} |" in PAGE


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_has_its_row(extra: str) -> None:
    row = re.search(rf"^\| `{extra}` \| (.*?) \|", PAGE, re.M)
    assert row is not None
    listed = {name.strip(" `") for name in row[1].split(",")}
    stated = set()
    for requirement in EXTRAS[extra]:
        inner = re.fullmatch(rf"{PROJECT['name']}\[(.*)\]", requirement)
        stated |= set(inner[1].split(",")) if inner else {requirement.replace(">=", " ")}
    assert listed == stated


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_used_by_the_script_that_installs_it(extra: str) -> None:
    assert f"promise_{extra}()" in (ROOT / ".ci" / "extras").read_text("utf-8")


def test_the_version_is_stated_alike() -> None:
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    loaded = re.search(
        r'"(.+)"', (ROOT / "mrf_matrix" / "__init__.py").read_text().split("__version__")[1]
    )
    assert cited is not None
    assert loaded is not None
    assert cited[1] == loaded[1] == PROJECT["version"]
