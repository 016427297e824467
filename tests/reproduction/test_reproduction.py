"""Every item's directions on small runs, and pages that say what the records give."""

import pytest
from catalogue import BY_NAME, ITEMS
from item import Figure, Item, MissingData, Run, Table, mean_of
from pages import PAGES, ROOT, SHOWN_BY_TESTS, all_records, page_texts
from record import read_record, worded
from rows import ROWS
from running import run_item


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_directions_hold_in_a_quick_run(name):
    record = run_item(BY_NAME[name], say=lambda words: None)
    if not record.parts:
        pytest.skip("; ".join(record.missing.values()))
    assert record.words["claims"] or record.missing
    assert [words for words, holds in record.words["claims"].items() if not holds] == []


def test_pages_say_what_the_records_give():
    for name, text in page_texts(all_records()).items():
        page = PAGES / f"{name}.md"
        assert page.read_text() == text, f"{page.name}: run python tests/reproduction pages"


def test_records_speak_the_items_words():
    for record in all_records():
        item = BY_NAME[record.item]
        assert worded(record, item) == record, "run python tests/reproduction pages"
        if record.full and set(record.parts) == set(item.parts):
            assert record.words["claims"].keys() == item.claims.keys(), record.item


def test_every_picture_is_drawn():
    for record in all_records():
        item = BY_NAME[record.item]
        if item.picture is not None and set(record.parts) == set(item.parts):
            assert (PAGES / "pictures" / f"{record.item}.svg").is_file(), record.item


def test_all_64_rows_are_listed_and_their_tests_exist():
    assert [row.number for row in ROWS] == list(range(1, 65))
    assert {number for item in ITEMS for number in item.rows} <= set(range(1, 65))
    for row in ROWS:
        assert all((ROOT / test).is_file() for test in row.tests), row
    assert all((ROOT / test).is_file() for test in SHOWN_BY_TESTS.values())


def counted(calls):
    """Return an item whose second part fails the first time."""

    def measure(part: str, run: Run) -> list[Figure]:
        calls.append(part)
        if part == "b" and calls.count("b") == 1:
            raise RuntimeError("stopped")
        return [mean_of(part, "value", [float(seed) for seed in run.seeds])]

    claims = {"a below b": lambda t: t["a", "value"] < t["b", "value"]}
    return Item("004-made-up", "made up", (64,), measure, "none", ("a", "b"), claims=claims)


def test_a_full_run_resumes_by_parts_and_says_what_is_left(tmp_path):
    calls, said = [], []
    item = counted(calls)
    with pytest.raises(RuntimeError, match="stopped"):
        run_item(item, full=True, repeats=2, folder=tmp_path, say=said.append)
    assert read_record(item.name, tmp_path).left == ["a (2 of 5 repeats)", "b"]
    assert read_record(item.name, tmp_path).words["claims"] == {}
    record = run_item(item, full=True, repeats=2, folder=tmp_path, say=said.append)
    assert calls == ["a", "b", "b"]
    assert read_record(item.name, tmp_path) == record
    assert record.words["claims"] == {"a below b": False}
    assert run_item(item, full=True, folder=tmp_path, say=said.append).left == []
    assert calls == ["a", "b", "b", "a", "b"]
    assert said[-1] == "004-made-up: complete"


def test_what_a_part_lacks_is_said_until_it_is_there(tmp_path):
    here = [False]

    def measure(part: str, run: Run) -> list[Figure]:
        if part == "b" and not here[0]:
            raise MissingData("needs b.csv")
        return [Figure(part, "value", 1.0)]

    item = Item("004-made-up", "made up", (64,), measure, "none", ("a", "b"), repeats=1)
    settings = {"full": True, "folder": tmp_path, "say": lambda words: None}
    lacking = run_item(item, **settings)
    assert (lacking.missing, lacking.left) == ({"b": "needs b.csv"}, ["b"])
    assert list(run_item(item, parts=("a",), **settings).parts) == ["a"]
    here[0] = True
    whole = run_item(item, **settings)
    assert (whole.missing, whole.left) == ({}, [])


def test_a_part_that_is_not_there_is_refused_by_name():
    with pytest.raises(SystemExit, match=r"004-made-up has no part \['c'\].*'a', 'b'"):
        run_item(counted([]), parts=("a", "c"))


def test_a_figure_is_a_mean_with_its_standard_error():
    assert mean_of("a", "b", [1.0, 3.0]) == Figure("a", "b", 2.0, 1.0, 2)
    assert mean_of("a", "b", [1.0]).error is None
    with pytest.raises(KeyError):
        Table(())["a", "b"]
