"""Comparisons from the command line, its help, and the data sets that it knows."""

import json

import pytest
from command_line import commands, run, told

SMALL = [
    "--n-trees",
    "4",
    "--max-depth",
    "2",
    "--n-splits",
    "1",
    "--n-draws",
    "1",
    "--strategy",
    "identity",
]


def test_help_names_every_command():
    text = run("--help").output
    for path, _ in commands():
        assert path[0] in text
        assert run(*path, "--help").exit_code == 0


def test_compare_prints_tables_and_writes_record_and_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    done = run("compare", "monks_1", *SMALL, "--epsilons", "1", "--output", tmp_path)
    assert done.exit_code == 0, done.output
    assert "No fit above claims privacy" in told(done)
    assert "certified" in done.output
    assert {file.name for file in tmp_path.iterdir()} == {
        "compare.json",
        "accuracy.png",
        "strategies.png",
    }
    assert json.loads((tmp_path / "compare.json").read_text())["dataset"] == "monks_1"


def test_the_first_line_says_what_it_will_take(tmp_path):
    options = ["--no-pictures", "--output", tmp_path, "--kind", "naive_bayes,majority"]
    small = [*SMALL, "--n-splits", "2", "--n-draws", "3", "--epsilons", "1,2", *options]
    done = run("compare", "monks_1", *small)
    assert done.exit_code == 0, done.output
    fits = len(json.loads((tmp_path / "compare.json").read_text())["scores"])
    assert done.stdout.splitlines()[0] == (
        "monks_1: 432 records of 6 attributes. Methods: 1 private, 1 other; budgets: 2; splits: 2; "
        f"noise draws: 3. {fits} fits; less than a minute on one core."
    )
    larger = run("compare", "monks_1", *small, "--noise", "exact")
    assert "it may take much more than a minute" in larger.stdout.splitlines()[0]
    quiet = run("compare", "monks_1", *small, "--json")
    assert json.loads(quiet.stdout)
    assert quiet.stderr.startswith("monks_1: 432 records")


def test_another_figure_is_shown_and_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    done = run(
        "compare", "monks_1", *SMALL, "--kind", "naive_bayes", "--metric", "log_loss",
        "--output", tmp_path,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "Test log-loss on monks_1, mean" in told(done)
    assert (tmp_path / "log_loss.png").exists()


def test_methods_that_are_not_compared_by_default_are_named(tmp_path):
    options = ["--kind", "additive,labels,pool", "--epsilons", "1", "--no-pictures"]
    options += ["--output", tmp_path]
    done = run("compare", "monks_1", *SMALL, *options)
    assert done.exit_code == 0, done.output
    for label in ("additive", "labels", "pool"):
        assert label in done.output


def test_json_goes_to_standard_output(tmp_path):
    few = ("--epsilons", "1", "--kind", "naive_bayes", "--no-pictures", "--output", tmp_path)
    done = run("compare", "monks_1", *SMALL, "--json", *few)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["settings"]["n_trees"] == 4


def test_exact_noise_is_called_a_release(tmp_path):
    exact = ("--noise", "exact", "--no-pictures", "--epsilons", "1", "--output", tmp_path)
    done = run("compare", "monks_1", *SMALL, *exact)
    assert done.exit_code == 0, done.output
    assert "exact noise" in done.output


def test_datasets_lists_names_with_sources():
    text = run("datasets").output
    assert "car" in text
    rows = json.loads(run("datasets", "--json").stdout)
    assert {"car", "nursery", "iris"} <= {row["name"] for row in rows}
    assert all(row["source"] and row["licence"] for row in rows)
