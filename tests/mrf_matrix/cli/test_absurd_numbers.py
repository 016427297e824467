"""Numbers that no option can mean end in a line that names it, and take neither time nor memory."""

import json

import click
import pytest
from click.testing import CliRunner

from mrf_matrix import Attribute, Domain, plan, tune
from mrf_matrix.cli.main import COMMANDS, main
from mrf_matrix.cli.options import PlainNumber
from strategies import select
from strategies.operators import RowKronecker

SMALL = ("--n-trees", 2, "--max-depth", 1, "--time-limit", 0.1, "--no-pictures")


def run(*arguments):
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, " ".join(done.output.split())


def numeric_options():
    """Return every command with its options that are numbers."""
    found = []
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        for inner in (command, *getattr(command, "commands", {}).values()):
            path = (name,) if inner is command else (name, inner.name)
            found += [(path, one) for one in inner.params if isinstance(one.type, PlainNumber)]
    return found


def test_no_option_takes_what_python_alone_calls_a_number():
    options = numeric_options()
    assert len(options) > 40
    for _, option in options:
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
    assert options[0][1].type.convert("7", None, None) == 7


@pytest.mark.parametrize("text", ["1_0", "１", "nan", "inf", "-1", "0", "1e400"])
def test_budgets_and_lists_are_plain_numbers_too(tmp_path, text):
    code, said = run("plan", "monks_1", "--epsilon", text)
    assert code == 2
    assert "--epsilon" in said
    (tmp_path / "w.txt").write_text(f"1 {text}x")
    code, said = run("plan", "monks_1", "--weights", tmp_path / "w.txt")
    assert code == 2
    assert "--weights" in said


ABSURD = {
    "ensembles": (("--n-ensembles", 10**9), "--n-ensembles 1000000000: expected at most 10000"),
    "queries": (("--kind", "batch", "--queries", 10**9), "--queries 1000000000: expected"),
    "trees": (("--n-trees", 10**9), "--n-trees"),
    "features": (("--max-features", 10**9), "--max-features 1000000000: expected at most 6"),
    "target": (("--target-rms", "1e-300"), "--target-rms: expected"),
    "budget": (("--epsilon", "1e-300"), "epsilon=1e-300: noise of scale above"),
}


@pytest.mark.parametrize("option", ABSURD)
def test_what_cannot_be_done_is_refused_by_name(tmp_path, option):
    words, told = ABSURD[option]
    code, said = run("plan", "monks_1", *SMALL, "--output", tmp_path, *words)
    assert code == 1
    assert told in said


def test_no_workers_are_refused_before_the_work(tmp_path):
    code, said = run("tune", "monks_1", "--objective", "error", "--n-jobs", 0, "--output", tmp_path)
    assert code == 1
    assert "--n-jobs 0: expected a number of workers" in said


def test_thousands_of_attributes_are_refused_before_the_work(tmp_path):
    attributes = [{"name": f"a{i}", "size": 2} for i in range(3000)]
    target = {"name": "y", "size": 2}
    file = tmp_path / "wide.json"
    file.write_text(json.dumps({"attributes": attributes, "target": target}))
    code, said = run("plan", file, "--kind", "matrix", "--output", tmp_path)
    assert code == 1
    assert "3000 attributes of about 2^3000 cells" in said
    assert "--max-features" in said
    code, said = run("tune", file, "--n-records", 1000, "--max-seconds", 5, "--output", tmp_path)
    assert code == 1
    assert "--max-seconds 5: to judge one design over 3000 attributes" in said
    with pytest.raises(ValueError, match="max_seconds=5"):
        tune(Domain.load(file), epsilon=1, n_records=1000, max_seconds=5)


@pytest.mark.parametrize("n_attributes", [600, 2000])
def test_a_comparison_over_too_many_attributes_is_refused_with_a_remedy(tmp_path, n_attributes):
    names = [f"a{i}" for i in range(n_attributes)]
    public = [Attribute(name, categories=["0", "1"]) for name in names]
    Domain(public, target=Attribute("y", categories=["n", "y"])).save(tmp_path / "wide.json")
    rows = [",".join([*names, "y"]), *[",".join([*"01" * (n_attributes // 2), "y"])] * 30]
    (tmp_path / "wide.csv").write_text("\n".join(rows))
    code, said = run("compare", tmp_path / "wide.csv", "--domain", tmp_path / "wide.json")
    assert code == 1
    assert f"{n_attributes} attributes of about 2^{n_attributes} cells" in said
    assert "fewer attributes" in said


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
