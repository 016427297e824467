"""Every Python block of README and the documentation runs, and what is shown beside it is true.

The blocks of a page run in order, in one namespace, in an empty folder, as a reader would type
them. A block of prompts is a doctest; a ``text`` block right below a block is what that one prints.
What a page names in code, a thing of ours or a file, is there. A guide is short.
"""

import ast
import doctest
import json
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from io import StringIO
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest

from mrf_matrix import (
    Attribute,
    Domain,
    PrivateForestClassifier,
    PureDP,
    RandomTrees,
    load_dataset,
    path_matrix,
    plan,
)
from mrf_matrix.plotting import MatrixDisplay
from strategies import examples, select
from strategies.operators import Norm, Operator

ROOT = Path(__file__).resolve().parents[1]
LESSON = "notebooks/from_trees_to_matrices_to_noise.ipynb"
GENERATED = {"_build", "_templates", "jupyter_execute", "notebooks"}
LANGUAGES = {"", "bash", "console", "json", "python", "text"}
FENCE = re.compile(r"^```(?P<language>\S*)[^\n]*\n(?P<body>.*?)^```[ ]*$", re.M | re.S)
SPAN = re.compile(r"`([^`\n]+)`")
DOTTED = re.compile(r"(?<![\w./])(?:mrf_matrix|strategies)(?:\.[A-Za-z_]\w*)+")
FILE = re.compile(
    r"(?<![\w./])(?:\.ci|docs|mrf_matrix|notebooks|strategies|tests)/(?!_build)[\w./-]*\w"
)
NO_NAMES = {"mrf_matrix.learned_model", "strategies.md"}
"""Dotted, but a file's format and a file."""
MOST_WORDS = 1000
"""Words of a guide, with tables and code; how things were measured stands in ``MEASURED``."""
MOST_IN_ALL = 45_000
"""Words of README and all pages but the API's and the reproductions', as ``wc -w`` counts them."""
MEASURED = ("docs/why/", "docs/private/accuracy.md", "docs/design.md")
ELSEWHERE = ("docs/api/", "docs/reproduction/")
RULES = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """Python of a page: where its first line stands, and what it is said to print, if anything."""

    line: int
    source: str
    printed: str | None


def pages() -> list[Path]:
    """Return README, its neighbours, and every page that a person wrote."""
    below = [page.relative_to(ROOT) for page in (ROOT / "docs").rglob("*.md")]
    return [
        *(page.relative_to(ROOT) for page in sorted(ROOT.glob("*.md"))),
        *sorted(page for page in below if not GENERATED & set(page.parts)),
    ]


def python_blocks(text: str) -> Iterator[Block]:
    """Yield the Python blocks of a page, in order."""
    for fence, after in pairwise([*FENCE.finditer(text), None]):
        if fence is None or fence["language"] != "python":
            continue
        shown = after is not None and after["language"] == "text"
        below = shown and not text[fence.end() : after.start()].strip()
        yield Block(
            text.count("\n", 0, fence.start("body")),
            fence["body"],
            after["body"] if below else None,
        )


def run_page(text: str, name: str) -> None:
    """Run the Python blocks of a page in one namespace, and compare what they show."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in python_blocks(text):
        if block.source.startswith(">>>"):
            run_prompts(block, name, namespace)
            continue
        code = compile("\n" * block.line + block.source, name, "exec")
        with redirect_stdout(StringIO()) as out:
            exec(code, namespace)
        if block.printed is not None:
            same = doctest.OutputChecker().check_output(block.printed, out.getvalue(), RULES)
            assert same, f"{name}, below line {block.line}:\n{out.getvalue()}"


def run_prompts(block: Block, name: str, namespace: dict[str, Any]) -> None:
    """Run a block of prompts as a doctest whose names stay."""
    test = doctest.DocTestParser().get_doctest(block.source, namespace, name, name, block.line)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=RULES).run(test, out=report.append, clear_globs=False)
    namespace.update(test.globs)
    assert not report, "".join(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [p for p in pages() if any(python_blocks((ROOT / p).read_text("utf-8")))], ids=str
)
def test_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    run_page((ROOT / page).read_text("utf-8"), str(page))


@pytest.mark.slow
def test_the_lesson_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """All notebooks run where the site is built; the first one that is read runs here too."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    cells = json.loads((ROOT / LESSON).read_text("utf-8"))["cells"]
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{LESSON}, {cell['id']}", "exec"), namespace)


@pytest.mark.parametrize("page", pages(), ids=str)
def test_no_python_hides_behind_another_name(page: Path) -> None:
    """A block of another language, or none, is one of those that are known not to be run."""
    found = {fence["language"] for fence in FENCE.finditer((ROOT / page).read_text("utf-8"))}
    assert {name for name in found if not name.startswith("{")} <= LANGUAGES


@pytest.mark.parametrize(
    ("page", "wrong", "right"),
    [
        ("```python\nx = 1\n```\n\n```python\nassert x == {}\n```\n", "2", "1"),
        ("```python\n>>> x = 1\n```\n\n```python\nassert x == {}\n```\n", "2", "1"),
        ("```python\n>>> 1 + 1\n{}\n```\n", "3", "2"),
        ("```python\nprint(1)\n```\n\n```text\n{}\n```\n", "2", "1"),
        ("```python\nprint(1, 2)\n```\n\n```text\n{}\n```\n", "1", "1 ..."),
    ],
    ids=["assertion", "after a prompt", "prompt", "printed", "printed in part"],
)
def test_a_page_that_is_wrong_fails(page: str, wrong: str, right: str) -> None:
    run_page(page.format(right), "page.md")
    with pytest.raises(AssertionError):
        run_page(page.format(wrong), "page.md")


def missing_names(text: str) -> list[str]:
    """Return the dotted names and files of a page's code spans that are not there."""
    spans = " ".join(SPAN.findall(FENCE.sub("", text)))
    lost = [name for name in FILE.findall(spans) if not (ROOT / name).exists()]
    for name in set(DOTTED.findall(spans)) - NO_NAMES:
        try:
            resolve_name(name)
        except (AttributeError, ImportError):
            lost.append(name)
    return sorted(lost)


@pytest.mark.parametrize("page", pages(), ids=str)
def test_what_a_page_names_is_there(page: Path) -> None:
    assert missing_names((ROOT / page).read_text("utf-8")) == []


@pytest.mark.parametrize(
    "name", [path.stem for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
)
def test_what_a_notebook_imports_is_there(name: str) -> None:
    cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text("utf-8"))["cells"]
    code = "\n".join("".join(one["source"]) for one in cells if one["cell_type"] == "code")
    imports = [one for one in ast.walk(ast.parse(code)) if isinstance(one, ast.ImportFrom)]
    ours = [one for one in imports if (one.module or "").startswith(("mrf_matrix", "strategies"))]
    assert ours
    for one in ours:
        for each in one.names:
            assert hasattr(import_module(one.module or ""), each.name), (one.module, each.name)


def test_a_name_that_is_not_there_is_found() -> None:
    wrong = "`strategies.select(W)`, `mrf_matrix.Domain.encode`, `docs/index.md`"
    assert missing_names(wrong) == []
    wrong += ", `strategies.selected`, `mrf_matrix.no.room`, `tests/none.py`"
    assert missing_names(wrong) == ["mrf_matrix.no.room", "strategies.selected", "tests/none.py"]


def n_words(page: Path) -> int:
    """Return how many words a page has, as ``wc -w`` counts them."""
    return len((ROOT / page).read_text("utf-8").split())


GUIDES = [
    page
    for page in pages()
    if page.parts[0] == "docs" and not page.as_posix().startswith(MEASURED + ELSEWHERE)
]


@pytest.mark.parametrize("page", GUIDES, ids=str)
def test_a_guide_is_short(page: Path) -> None:
    assert n_words(page) <= MOST_WORDS


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("planning.md", "The budget is ε = 1 unless"),
        ("get_started.md", "take ε = 1"),
        ("get_started.md", '`strategies.select` takes `norm="l1"`'),
        ("strategies.md", '`norm="l1"`, the default'),
    ],
)
def test_guides_tell_the_default_budget_and_norm(page: str, said: str) -> None:
    assert said in (ROOT / "docs" / page).read_text("utf-8")
    domain = Domain.from_sizes([2, 3], n_classes=2)
    assert plan(domain).budget == PrivateForestClassifier(domain).plan().budget == PureDP(1)
    assert select(np.eye(2)).norm == "l1"


def test_all_pages_together_are_short() -> None:
    ours = [page for page in pages() if page.name == "README.md" or page.parts[0] == "docs"]
    read = [page for page in ours if not page.as_posix().startswith(ELSEWHERE)]
    assert sum(map(n_words, read)) <= MOST_IN_ALL


# The front page -----------------------------------------------------------------------------------


README = Path(__file__).resolve().parents[1] / "README.md"
PICTURE = README.parent / "docs" / "_static" / "matrices.png"
ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
NORMS: tuple[Norm, ...] = ("l1", "l2")
HEAD = (
    "| workload W | rows × cells | bound | Laplace noise: loss, and over the bound "
    "| Gaussian noise: loss, and over the bound |\n|---|---|---|---|---|"
)
CLOSE, WORSE = 0.02, 0.05
"""Descents end a little elsewhere on another processor: a written loss is at most the first below
what is found, and at most the second above."""


def leaves_of_car() -> Operator:
    domain = load_dataset("car").domain
    return path_matrix(RandomTrees(n_trees=128, max_depth=4).grow(domain, random_state=0))


WORKLOADS: dict[str, Callable[[], Operator]] = {
    "leaves of 128 random trees over Car": leaves_of_car,
    "64 prefix sums": lambda: examples.prefix_sums(64),
    "all ranges of 64 cells": lambda: examples.all_ranges(64),
    "two-way tables over Adult's sizes": lambda: examples.marginals(ADULT, 2),
    "a census: union of products": examples.census_like,
}


def cells_of(name: str) -> list[str]:
    """Return the cells of one row of the table."""
    workload = WORKLOADS[name]()
    found = [select(workload, norm, random_state=0) for norm in NORMS]
    rows, cells = workload.shape
    shape = f"{rows:,} × {cells:,}" if cells < 10**9 else f"{rows:,} × {cells:.1e}"
    reached = [f"`{one.method}` {one.loss:,.0f} ({one.certified_ratio:.2f} ×)" for one in found]
    return [name, shape, f"{min(one.lower_bound for one in found):,.0f}", *reached]


def numbers(cell: str) -> list[float]:
    """Return the numbers of a cell, without the family's name."""
    return [float(one.replace(",", "")) for one in re.findall(r"\d[\d,.]*", cell.split("`")[-1])]


def written_rows() -> dict[str, list[str]]:
    _, table = README.read_text("utf-8").split(HEAD)
    lines = [line for line in table.split("\n\n")[0].splitlines() if line]
    return {
        cells[0]: cells for cells in ([*map(str.strip, line[1:-1].split("|"))] for line in lines)
    }


def test_the_table_has_a_row_for_each_workload() -> None:
    assert list(written_rows()) == list(WORKLOADS)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_row_says_what_is_found(name: str) -> None:
    written, found = written_rows()[name], cells_of(name)
    assert written[1] == found[1]
    assert numbers(written[2]) == pytest.approx(numbers(found[2]), rel=CLOSE)
    for told, computed in zip(written[3:], found[3:], strict=True):
        for one, now in zip(numbers(told), numbers(computed), strict=True):
            assert now * (1 - CLOSE) <= one <= now * (1 + WORSE)
        assert told.split("`")[1:2] == computed.split("`")[1:2]


def leaves_of_days() -> Operator:
    """Return T of the forest on README."""
    outlook = Attribute("outlook", categories=["sunny", "overcast", "rainy"])
    others = [Attribute(name, categories=["no", "yes"]) for name in ("windy", "humid")]
    domain = Domain([outlook, *others])
    return path_matrix(RandomTrees(n_trees=3, max_depth=2).grow(domain, random_state=0))


def picture() -> MatrixDisplay:
    T = leaves_of_days()
    A = select(T, norm="l2", random_state=0)
    drawn = {"T": T, "A": A.matrix, "T A⁺": A.reconstruction(T)}
    sides = {"T": ("", "cell"), "A": ("measurement", "cell"), "T A⁺": ("leaf", "measurement")}
    return MatrixDisplay(drawn, sides).plot()


def test_the_picture_shows_what_readme_says_of_it() -> None:
    shown = picture()
    assert [one.get_title() for one in shown.axes_] == ["T, 18 × 12", "A, 12 × 12", "T A⁺, 18 × 12"]
    assert PICTURE.is_file()
    assert select(leaves_of_days(), norm="l2", random_state=0).certified_ratio < 1 + 1e-6


if __name__ == "__main__":
    picture().figure_.savefig(PICTURE, dpi=90)
    print(HEAD, *("| " + " | ".join(cells_of(name)) + " |" for name in WORKLOADS), sep="\n")


# The site -----------------------------------------------------------------------------------------


SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "check_site.py"
SPEC = spec_from_file_location("check_site", SCRIPT)
check_site = module_from_spec(SPEC)
SPEC.loader.exec_module(check_site)

DOCS = SCRIPT.parent
GOOD = '<a href="two.html#there">x</a><a href="https://example.org">y</a><img src="i.png">'


@pytest.fixture
def site(tmp_path):
    (tmp_path / "api" / "generated").mkdir(parents=True)
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "two.html").write_text('<p id="there"></p>')
    (tmp_path / "i.png").write_bytes(b"")
    page = tmp_path / "api" / "generated" / "m.AClassifier.html"
    page.write_text('<dt id="m.AClassifier.predict_proba"></dt>')
    return tmp_path


def test_a_good_site_has_no_problem(site):
    assert check_site.main(str(site)) == 0


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        ("index.html", '<script src="https://cdn.example/x.js"></script>', "loads https://cdn"),
        ("index.html", '<link rel="stylesheet" href="//fonts.example/f">', "loads //fonts"),
        ("index.html", "<style>@import 'https://a.example/b';</style>", "loads https://a"),
        ("index.html", '<p style="background:url(http://a.example/b)">', "loads http://a"),
        ("index.html", '<img srcset="https://a.example/b 2x">', "loads https://a"),
        ("index.html", '<img src="missing.png">', "not there"),
        ("index.html", '<a href="nowhere.html">x</a>', "links to nowhere.html"),
        ("index.html", '<a href="two.html#else">x</a>', "nothing has that name"),
        ("s.css", "@font-face{src:url('https://a.example/b')}", "s.css loads"),
        ("api/generated/m.BClassifier.html", "<p>", "lists no predict_proba"),
    ],
)
def test_what_is_wrong_is_named(site, capsys, file, text, found):
    (site / file).write_text(text)
    assert check_site.main(str(site)) == 1
    assert found in capsys.readouterr().out


def test_a_folder_without_a_site_is_refused(tmp_path):
    assert check_site.main(str(tmp_path)) == 1


def test_every_notebook_has_its_card_and_picture():
    gallery = (DOCS / "examples.md").read_text("utf-8")
    names = {path.stem for path in (DOCS.parent / "notebooks").glob("*.ipynb")}
    assert names
    assert names == {path.stem for path in (DOCS / "_static" / "thumbnails").glob("*.png")}
    assert all(f"(notebooks/{name}.ipynb)" in gallery for name in names)
