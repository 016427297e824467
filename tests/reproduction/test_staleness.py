"""Which commit a record is of, and whether what its figures rest on changed since."""

import os
import runpy
import subprocess
from dataclasses import replace

import pytest
from commits import UNKNOWN, commit_of, in_words
from item import Figure, Item, MissingData
from record import read_record, write_record
from running import run_item
from stale import told
from staleness import subject_of

LIBRARY, TABLE = "mrf_matrix/library.py", "tests/reproduction/made_up_rates.py"
SOURCES = {
    LIBRARY: '''"""A library."""
from made_up_rates import RATE, UNUSED

FACTOR = 2


def used(x):
    """Return it scaled."""
    return FACTOR * x + RATE


def unused(x):
    return UNUSED
''',
    TABLE: "RATE = 1\nUNUSED = 5\n",
    ".gitignore": "__pycache__/\n",  # or what Python writes beside the table is a change
}


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


def commit(root):
    """Commit all there is."""
    git(root, "add", ".")
    git(root, "commit", "-qm", "a change")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Return a repository of a library and a table of constants."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    root = tmp_path / "checkout"
    for name, source in SOURCES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(source)
    git(tmp_path, "init", "-q", str(root))
    commit(root)
    monkeypatch.syspath_prepend(str(root / "tests" / "reproduction"))
    return root


def item_of(root):
    """Return an item that calls one function of the library."""

    def measure(part, run):
        used = runpy.run_path(str(root / LIBRARY))["used"]
        return [Figure(part, "value", used(1.0))]

    return Item("004-made-up", "made up", (64,), measure, "none", ("a", "b"), repeats=1)


@pytest.fixture
def records(checkout, tmp_path):
    """Return the folder of a record that was computed on the present commit."""
    folder = tmp_path / "records"
    record = run_item(item_of(checkout), full=True, folder=folder, say=lambda words: None)
    parts = {n: replace(part, commit=commit_of(checkout)) for n, part in record.parts.items()}
    write_record(replace(record, parts=parts), folder)
    return folder


def edit(root, name, old, new):
    text = (root / name).read_text()
    assert old in text
    (root / name).write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        (LIBRARY, "* x", "* x * 1", "used"),
        (LIBRARY, "FACTOR = 2", "FACTOR = 3", "FACTOR"),
        (TABLE, "RATE = 1", "RATE = 4", "RATE"),
        (TABLE, "UNUSED = 5", "UNUSED = 6", None),
        (LIBRARY, "return UNUSED", "return 2 * UNUSED", None),
        (LIBRARY, '"""Return it scaled."""', '"""Return x, scaled."""  # so', None),
        (LIBRARY, "A library.", "The library.", None),
    ],
    ids=["function", "constant", "imported constant", "other constant", "other", "words", "title"],
)
@pytest.mark.parametrize("committed", [True, False])
def test_a_record_is_listed_where_its_subject_changed(
    checkout, records, file, old, new, changed, committed
):
    item, first = item_of(checkout), commit_of(checkout)
    assert list(told(item, records, checkout)) == []
    edit(checkout, file, old, new)
    if committed:
        commit(checkout)
    said = list(told(item, records, checkout))
    if changed is None:
        assert said == []
    else:
        assert said == [
            f"004-made-up, computed on `{first}`; changed since:",
            f"    {file}: {changed}",
            "    again: python tests/reproduction 004-made-up --full --again",
        ]


def test_who_asks_is_no_part_of_the_subject():
    def ask():
        return item_of(None)

    here = subject_of(ask)["tests/reproduction/test_staleness.py"]
    assert "item_of" in here
    assert not [name for name in here if name.startswith("test_")]


def test_a_file_that_only_moved_is_no_change(checkout, records):
    moved = "mrf_matrix/moved.py"
    git(checkout, "mv", LIBRARY, moved)
    commit(checkout)

    def measure(part, run):
        return [Figure(part, "value", runpy.run_path(str(checkout / moved))["used"](1.0))]

    item = replace(item_of(checkout), measure=measure)
    assert list(told(item, records, checkout)) == []
    edit(checkout, moved, "* x", "* x * 1")
    assert f"    {moved}: used" in told(item, records, checkout)


def test_parts_of_several_commits_are_listed_apart(checkout, records):
    edit(checkout, LIBRARY, "* x", "* x * 1")
    commit(checkout)
    record = read_record("004-made-up", records)
    parts = record.parts | {"b": replace(record.parts["b"], commit=commit_of(checkout))}
    write_record(replace(record, parts=parts), records)
    said = list(told(item_of(checkout), records, checkout))
    assert said[0].startswith("004-made-up (a), computed on")
    assert said[-1].endswith("--full --again --parts a")


def test_a_commit_that_git_does_not_know_is_said(checkout, records):
    record = read_record("004-made-up", records)
    for name in (UNKNOWN, "0123456789"):
        parts = {part: replace(found, commit=name) for part, found in record.parts.items()}
        write_record(replace(record, parts=parts), records)
        said = list(told(item_of(checkout), records, checkout))
        assert len(said) == 2
        assert "cannot be told" in said[0]


def test_an_item_that_lacks_its_data_is_said(checkout, records):
    def measure(part, run):
        raise MissingData("needs b.csv")

    (said,) = told(replace(item_of(checkout), measure=measure), records, checkout)
    assert "needs b.csv" in said


def test_a_commit_says_whether_its_code_is_as_committed(checkout, tmp_path):
    clean = commit_of(checkout)
    assert len(clean) >= 10
    (checkout / "README.md").write_text("no code\n")
    assert commit_of(checkout) == clean
    edit(checkout, TABLE, "1", "3")
    assert commit_of(checkout) == f"{clean}+"
    assert in_words(f"{clean}+") == f"`{clean}` with changes that were not committed"
    assert commit_of(tmp_path) == commit_of(checkout / "mrf_matrix") == UNKNOWN


def test_without_git_the_commit_is_unknown(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert commit_of(checkout) == UNKNOWN


def test_a_run_writes_its_commit_and_may_be_made_again(tmp_path):
    calls = []

    def measure(part, run):
        calls.append(part)
        return [Figure(part, "value", 1.0)]

    item = Item("004-made-up", "made up", (64,), measure, "none", ("a", "b"), repeats=1)
    settings = {"full": True, "folder": tmp_path, "say": lambda words: None}
    first = run_item(item, **settings)
    assert {part.commit for part in first.parts.values()} == {commit_of()}
    run_item(item, **settings)
    run_item(item, parts=("b",), again=True, **settings)
    assert calls == ["a", "b", "b"]
