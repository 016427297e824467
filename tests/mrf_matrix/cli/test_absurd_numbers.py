"""Numbers that no option can mean end in a line that names it, and take neither time nor memory."""

import json

import click
import pytest
from command_line import commands, run, told

from mrf_matrix import Attribute, Domain, plan, tune
from strategies import select
from strategies.operators import RowKronecker

SMALL = ("--n-trees", 2, "--max-depth", 1, "--time-limit", 0.1, "--no-pictures")


def said(*words):
    done = run(*words)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, told(done)


def is_number(kind):
    try:
        return kind.convert("7", None, None) == 7
    except (click.BadParameter, TypeError):
        return False


def test_no_option_takes_what_python_alone_calls_a_number():
    options = [one for _, command in commands() for one in command.params if is_number(one.type)]
    assert len(options) > 40
    for option in options:
        for text in (
            "1_0",
            "１",
            "nan",
            "inf",
            "1e400",
            str(10**30),
            "9" * 5000,
            "",
            "0x10",
            "1 2",
        ):
            with pytest.raises(click.BadParameter):
                option.type.convert(text, option, None)


@pytest.mark.parametrize("text", ["1_0", "１", "nan", "inf", "-1", "0", "1e400"])
def test_budgets_and_lists_are_plain_numbers_too(tmp_path, text):
    code, words = said("plan", "monks_1", "--epsilon", text)
    assert code == 2
    assert "--epsilon" in words
    (tmp_path / "w.txt").write_text(f"1 {text}x")
    code, words = said("plan", "monks_1", "--weights", tmp_path / "w.txt")
    assert code == 2
    assert "--weights" in words


ABSURD = {
    "ensembles": (("--n-ensembles", 10**9), "--n-ensembles 1000000000: expected at most 10000"),
    "queries": (("--kind", "batch", "--queries", 10**9), "--queries 1000000000: expected"),
    "trees": (("--n-trees", 10**9), "--n-trees"),
    "features": (("--max-features", 10**9), "--max-features 1000000000: expected at most 6"),
    "target": (("--target-rms", "1e-300"), "--target-rms: expected"),
    "budget": (("--epsilon", "1e-300"), "--epsilon 1e-300: noise of scale above"),
}


@pytest.mark.parametrize("option", ABSURD)
def test_what_cannot_be_done_is_refused_by_name(tmp_path, option):
    asked, expected = ABSURD[option]
    code, words = said("plan", "monks_1", *SMALL, "--output", tmp_path, *asked)
    assert code == 1
    assert expected in words


def test_no_workers_are_refused_before_the_work(tmp_path):
    code, words = said(
        "tune", "monks_1", "--objective", "error", "--n-jobs", 0, "--output", tmp_path
    )
    assert code == 1
    assert "--n-jobs 0: expected a number of workers" in words


def test_thousands_of_attributes_are_refused_before_the_work(tmp_path):
    attributes = [{"name": f"a{i}", "size": 2} for i in range(3000)]
    target = {"name": "y", "size": 2}
    file = tmp_path / "wide.json"
    file.write_text(json.dumps({"attributes": attributes, "target": target}))
    code, words = said("plan", file, "--kind", "matrix", "--output", tmp_path)
    assert code == 1
    assert "3000 attributes of about 2^3000 cells" in words
    assert "--max-features" in words
    code, words = said("tune", file, "--n-records", 1000, "--max-seconds", 5, "--output", tmp_path)
    assert code == 1
    assert "--max-seconds 5: to judge one design over 3000 attributes" in words
    with pytest.raises(ValueError, match="max_seconds=5"):
        tune(Domain.load(file), epsilon=1, n_records=1000, max_seconds=5)


@pytest.mark.parametrize("n_attributes", [600, 2000])
def test_a_comparison_over_too_many_attributes_is_refused_with_a_remedy(tmp_path, n_attributes):
    names = [f"a{i}" for i in range(n_attributes)]
    public = [Attribute(name, categories=["0", "1"]) for name in names]
    Domain(public, target=Attribute("y", categories=["n", "y"])).save(tmp_path / "wide.json")
    rows = [",".join([*names, "y"]), *[",".join([*"01" * (n_attributes // 2), "y"])] * 30]
    (tmp_path / "wide.csv").write_text("\n".join(rows))
    code, words = said("compare", tmp_path / "wide.csv", "--domain", tmp_path / "wide.json")
    assert code == 1
    assert f"{n_attributes} attributes of about 2^{n_attributes} cells" in words
    assert "fewer attributes" in words


def test_families_that_a_limit_cannot_pay_for_are_left_out():
    """Rows whose components alone take longer than the limit are measured as they are."""
    domain = Domain.from_sizes([10] * 30, n_classes=2)
    made = plan(domain, "matrix", epsilon=1, n_trees=2, time_limit=0.02, random_state=0)
    (part,) = made.parts
    left_out = [one for one in part.strategy.candidates if "more than is left" in one.note]
    assert {one.family for one in left_out} >= {"marginals"}
    assert part.strategy.loss < float("inf")
    rows = part.workload
    assert isinstance(rows, RowKronecker)
    few = rows.take_rows(list(range(12)))
    assert "marginals" in {one.family for one in select(few, time_limit=1).candidates if one.matrix}
