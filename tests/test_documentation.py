"""Every Python block of README and the documentation runs, and what is shown beside it is true.

The blocks of a page run in order, in one namespace, in an empty folder, as a reader would type
them. A block of prompts is a doctest; a ``text`` block right below a block is what that one prints.
What a page names in code, a thing of ours or a file, is there. A guide is short.
"""

import doctest
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

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


def test_all_pages_together_are_short() -> None:
    ours = [page for page in pages() if page.name == "README.md" or page.parts[0] == "docs"]
    read = [page for page in ours if not page.as_posix().startswith(ELSEWHERE)]
    assert sum(map(n_words, read)) <= MOST_IN_ALL
