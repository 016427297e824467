"""The import table of docs/design.md, enforced: who may import whom."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("strategies", "mrf_matrix")

DATA = {"mrf_matrix.files", "mrf_matrix.domain", "mrf_matrix.forests", "mrf_matrix.mechanisms"}
MATRIX = {"strategies", "strategies.operators"}
PLANNED = DATA | MATRIX | {"mrf_matrix.datasets", "mrf_matrix.compilation"}
FITTED = PLANNED | {"mrf_matrix.planning", "mrf_matrix.posterior", "mrf_matrix.reconstruction"}
FITTED |= {"mrf_matrix.streams"}

# part -> the other parts it may import; a file that stands in no row fails.
MAY_IMPORT = {
    "strategies.operators": set(),
    "strategies": {"strategies.operators"},
    "mrf_matrix.files": set(),
    "mrf_matrix.domain": {"mrf_matrix.files"},
    "mrf_matrix.datasets": {"mrf_matrix.domain"},
    "mrf_matrix.mechanisms": MATRIX | {"mrf_matrix.files"},
    "mrf_matrix.forests": {"mrf_matrix.domain", "mrf_matrix.mechanisms"},
    "mrf_matrix.compilation": {
        "mrf_matrix.domain",
        "mrf_matrix.forests",
        "strategies.operators",
    },
    "mrf_matrix.streams": {
        "mrf_matrix.domain",
        "mrf_matrix.datasets",
        "mrf_matrix.forests",
        "mrf_matrix.compilation",
        "mrf_matrix.mechanisms",
        "strategies.operators",
    },
    "mrf_matrix.reconstruction": DATA | MATRIX | {"mrf_matrix.compilation"},
    "mrf_matrix.posterior": set(),
    "mrf_matrix.planning": PLANNED | {"mrf_matrix.posterior", "mrf_matrix.reconstruction"},
    "mrf_matrix.estimators": FITTED | {"mrf_matrix.plotting"},
    "mrf_matrix.plotting": FITTED | {"mrf_matrix.estimators"},
    "mrf_matrix.cli": FITTED | {"mrf_matrix.estimators", "mrf_matrix.plotting", "mrf_matrix"},
    "mrf_matrix": FITTED | {"mrf_matrix.estimators", "mrf_matrix.plotting"},
}

# third-party packages that only some parts may import
ONLY_IN = {
    "sklearn": {"mrf_matrix.datasets", "mrf_matrix.estimators", "mrf_matrix.forests"},
    "matplotlib": {"mrf_matrix.plotting"},
    "cvxpy": {"strategies"},
    "opendp": {"mrf_matrix.mechanisms"},
    "dp_accounting": {"mrf_matrix.mechanisms"},
    "click": {"mrf_matrix.cli"},
    "pandas": set(),
}
# imported inside functions only, so that loading a package stays light
LAZY = {"matplotlib", "cvxpy", "opendp", "dp_accounting"}

FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def part_of(module: str) -> str:
    """Return the table row that a module belongs to."""
    pieces = module.split(".")
    two = ".".join(pieces[:2])
    return two if two in MAY_IMPORT else pieces[0]


def module_of(path: Path) -> str:
    pieces = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(pieces[:-1] if pieces[-1] == "__init__" else pieces)


def row_of(path: Path) -> str:
    """Return the row of a file: a folder of mrf_matrix must have a row of its own."""
    module = module_of(path)
    if module.startswith("mrf_matrix.") and ".".join(module.split(".")[:2]) not in MAY_IMPORT:
        raise AssertionError(f"{path.relative_to(ROOT)} stands in no row of the import table")
    return part_of(module)


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
            visit(child, inner)

    visit(tree, True)
    return found


def violations(path: Path, source: str) -> list[str]:
    """Return what a file imports against the table."""
    row = row_of(path)
    wrong = []
    for module, top in imports_of(ast.parse(source)):
        package = module.split(".")[0]
        if package in PACKAGES:
            part = part_of(module)
            if part != row and part not in MAY_IMPORT[row]:
                wrong.append(f"{row} imports {module}")
        elif package in ONLY_IN and row not in ONLY_IN[package]:
            wrong.append(f"{row} imports {package}")
        if package in LAZY and top:
            wrong.append(f"{package} is imported at module level")
    return wrong


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_table(path: Path) -> None:
    assert violations(path, path.read_text()) == []


def test_the_table_catches_a_violation() -> None:
    operators = ROOT / "strategies" / "operators" / "dense.py"
    assert violations(operators, "import mrf_matrix.domain")
    assert violations(operators, "from strategies import select")
    assert violations(ROOT / "mrf_matrix" / "domain" / "domain.py", "import sklearn")
    assert violations(ROOT / "mrf_matrix" / "plotting" / "style.py", "import matplotlib")
    with pytest.raises(AssertionError, match="no row"):
        violations(ROOT / "mrf_matrix" / "helpers.py", "")


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


def test_importing_strategies_is_light() -> None:
    loaded = loaded_by("import strategies")
    assert loaded.isdisjoint({"sklearn", "cvxpy", "mrf_matrix", "matplotlib", "pandas"})


def test_importing_mrf_matrix_is_light() -> None:
    loaded = loaded_by("import mrf_matrix")
    assert loaded.isdisjoint({"sklearn", "cvxpy", "opendp", "dp_accounting", "matplotlib"})


def test_every_public_name_loads() -> None:
    import mrf_matrix

    for name in mrf_matrix.__all__:
        assert getattr(mrf_matrix, name) is not None
        assert name in dir(mrf_matrix)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = mrf_matrix.no_such_name
