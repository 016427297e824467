"""Plans, designs and comparisons from the command line, its help and its data sets."""

import json
import shlex
import sys

import pytest
from command_line import commands, run, told

from mrf_matrix import Domain, PrivateForestClassifier, load_dataset, load_model

SMALL = ["--n-trees", "4", "--max-depth", "2", "--strategy", "identity", "--time-limit", "2"]
FEW = ["--max-depth", "1,2", "--n-trees", "4", "--strategy", "identity", "--time-limit", "0.2"]
closed = pytest.mark.usefixtures("no_records")


def domain_file(folder, sizes, n_classes=2):
    Domain.from_sizes(sizes, n_classes=n_classes).save(folder / "schema.json")
    return folder / "schema.json"


@closed
def test_plan_prints_tables_and_writes_record_and_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    done = run("plan", "monks_1", *SMALL, "--output", tmp_path)
    assert done.exit_code == 0, done.output
    for text in (
        "rms per leaf",
        "certified",
        "no record read",
        "flips, lead of 10%",
        "noise scale",
    ):
        assert text in done.output
    assert {file.name for file in tmp_path.iterdir()} == {
        "plan.json", "error.png", "strategies.png", "leaves.png", "sensitivity.png"
    }  # fmt: skip
    assert json.loads((tmp_path / "plan.json").read_text())["records"] == 432


@closed
@pytest.mark.parametrize(("seconds", "known"), [(0.1, False), (30, True)])
def test_a_bound_that_takes_longer_than_the_limit_is_null(tmp_path, seconds, known):
    arguments = (domain_file(tmp_path, [2] * 10), "--n-trees", 20, "--max-depth", 6)
    arguments += ("--strategy", "identity", "--time-limit", seconds, "--no-pictures")
    done = run("plan", *arguments, "--output", tmp_path)
    assert done.exit_code == 0, done.output
    stored = json.loads((tmp_path / "plan.json").read_text())
    assert (stored["lower_bound"] is not None) == (stored["certified_ratio"] is not None) == known
    assert ("no lower bound within --time-limit" in told(done)) == (not known)
    assert ("times the least squared error" in told(done)) == known


@closed
def test_what_is_written_is_named_and_pictures_need_matplotlib(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    asked = ("plan", "monks_1", "--kind", "tables", "--n-blocks", "3")
    asked += ("--output", tmp_path / "new" / "folder")
    file = tmp_path / "new" / "folder" / "plan.json"
    done = run(*asked)
    assert "expected rms per leaf" in done.output
    assert "rms per vote" not in done.output
    (line,) = (one for one in done.stdout.splitlines() if one.startswith("Written: "))
    assert line == "Written: " + ", ".join(
        [
            str(file),
            *(str(file.parent / one) for one in ("error.png", "leaves.png", "sensitivity.png")),
        ]
    )
    as_json = run(*asked, "--json")
    assert line in as_json.stderr
    assert json.loads(as_json.stdout) == json.loads(file.read_text())
    assert f"Written: {file}\n" in run(*asked, "--no-pictures").stdout
    for name in [one for one in sys.modules if one.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    without = run(*asked)
    assert without.exit_code == 0
    assert f"Written: {file}\n" in without.stdout
    assert "No pictures: " in without.stderr


@closed
@pytest.mark.parametrize("kind", ["matrix", "batch", "subsample"])
def test_plan_of_a_domain_file(tmp_path, kind):
    done = run(
        "plan", domain_file(tmp_path, [3, 4, 2]), *SMALL, "--kind", kind, "--rho", "0.5", "--json",
        "--no-pictures", "--output", tmp_path,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["budget"] == "ZCDP(rho=0.5)"


# The forest that `fit` would take -----------------------------------------------------------------


@closed
@pytest.mark.parametrize("kind", [[], ["--kind", "auto"]])
@pytest.mark.parametrize(
    ("data", "options", "claim"),
    [
        ("car", ["--epsilon", "1/2"], {"epsilon": 0.5}),
        ("monks_1", ["--rho", "0.1"], {"rho": 0.1}),
        (
            "monks_1",
            ["--epsilon", "1", "--delta", "1e-6", "--neighboring", "replace_one"],
            {"epsilon": 1, "delta": 1e-6, "neighboring": "replace_one"},
        ),
    ],
)
def test_it_prints_what_the_classifier_plans(tmp_path, kind, data, options, claim):
    records = {"car": 1728, "monks_1": 432}[data]  # as published
    done = run("plan", data, *kind, *options, "--output", tmp_path)
    assert done.exit_code == 0, done.output
    stored = json.loads((tmp_path / "plan.json").read_text())
    domain = DOMAINS[data]
    planned = PrivateForestClassifier(domain, n_records=records, **claim).plan()
    shown = told(done)
    for near in (planned.below, planned.above):
        assert near is None or (near[1] in shown and f"{near[0]:,.0f}" in shown)
    for text in ("taken", "table of rules", "lead", "share", "no record read", "Signal and noise"):
        assert text in shown
    assert " ".join(planned.reason.split()) in shown
    assert stored["reason"] == planned.reason
    assert stored["records"] == records
    assert {file.name for file in tmp_path.iterdir()} == {"plan.json"}


DOMAINS = {name: load_dataset(name).domain for name in ("car", "monks_1")}


@closed
def test_choices_and_the_rest_of_the_budget_are_steps(tmp_path):
    arguments = [domain_file(tmp_path, [4] * 30), "--kind", "auto", "--n-records", 20_000]
    arguments += ["--random-state", 3, "--output", tmp_path]
    done = run("plan", *arguments)
    assert done.exit_code == 0, done.output
    for text in ("how rare the rarer class is", "which attribute is kept, choice 1", "a choice",
                 "as chosen", "those of even classes"):  # fmt: skip
        assert text in told(done)
    record = json.loads(run("plan", *arguments, "--json").stdout)
    assert record["kind"] == "auto"
    assert sum(step["share"] for step in record["steps"]) == pytest.approx(1)
    assert record["screened"]
    assert record["rule"]["forest"] == record["forest"]
    assert record["below"]["up_to"] < record["signal"]


@closed
def test_steps_name_their_attributes_and_fold_to_eight_lines(tmp_path):
    asked = ["plan", "car", "--kind", "additive", "--output", tmp_path]
    short, whole = run(*asked), run(*asked, "-v")
    assert short.exit_code == whole.exit_code == 0, short.output
    steps = json.loads((tmp_path / "plan.json").read_text())["steps"]
    words = [step["measured"] for step in steps]
    assert {"counts of buying", "pass 1: residuals of safety"} <= set(words)
    assert f"{len(words) - 7} more: mrf-matrix plan -v" in told(short)
    shown = [place for place, one in enumerate(words) if one in short.output]
    assert shown == [*range(6), len(words) - 1]
    assert all(one in whole.output for one in words)
    assert "more:" not in whole.output


@closed
def test_without_a_number_of_records_it_says_so(tmp_path):
    done = run("plan", domain_file(tmp_path, [4] * 6, 3), "--kind", "auto", "--output", tmp_path)
    assert done.exit_code == 0, done.output
    assert "need a public n_records" in told(done)


# Designs ------------------------------------------------------------------------------------------


@closed
def test_tune_prints_a_table_and_resumes(tmp_path):
    pytest.importorskip("matplotlib")
    arguments = ["tune", "monks_1", *FEW, "--output", tmp_path]
    file = ["--resume", tmp_path / "trials.json"]
    first = run(*arguments, *file)
    assert first.exit_code == 0, first.output
    assert "Best: " in first.output
    again = run(*arguments, *file, "--json", "--no-pictures")
    assert len(json.loads(again.stdout)["trials"]) == 8
    assert (tmp_path / "designs.png").exists()


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("matrix", ["--n-trees", "4", "--max-depth", "1", "--strategy", "identity"]),
        ("tables", ["--n-blocks", "2"]),
        ("additive", ["--kind", "additive"]),
    ],
)
def test_the_line_that_tune_prints_trains_its_choice(monks, tmp_path, method, options):
    found = run(
        "tune", monks / "domain.json", "--n-records", "432", "--epsilon", "1/2", *options,
        "--no-pictures", "--output", tmp_path,
    )  # fmt: skip
    (line,) = (row for row in found.output.splitlines() if "mrf-matrix fit" in row)
    assert f"--kind {method}" in line
    _, *words, _ = shlex.split(line)
    words[words.index("RECORDS.csv")] = monks / "records.csv"
    done = run(*words, tmp_path / "model.mrf")
    assert done.exit_code == 0, done.output
    assert "epsilon=0.5" in done.output
    assert load_model(tmp_path / "model.mrf").domain_ == DOMAINS["monks_1"]


# Comparisons --------------------------------------------------------------------------------------


FEW_FITS = [
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
    done = run("compare", "monks_1", *FEW_FITS, "--epsilons", "1", "--output", tmp_path)
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
    small = [*FEW_FITS, "--n-splits", "2", "--n-draws", "3", "--epsilons", "1,2", *options]
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
        "compare", "monks_1", *FEW_FITS, "--kind", "naive_bayes", "--metric", "log_loss",
        "--output", tmp_path,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "Test log-loss on monks_1, mean" in told(done)
    assert (tmp_path / "log_loss.png").exists()


def test_exact_noise_is_called_a_release(tmp_path):
    exact = ("--noise", "exact", "--no-pictures", "--epsilons", "1", "--output", tmp_path)
    done = run("compare", "monks_1", *FEW_FITS, *exact)
    assert done.exit_code == 0, done.output
    assert "exact noise" in done.output


def test_datasets_lists_names_with_sources():
    text = run("datasets").output
    assert "car" in text
    rows = json.loads(run("datasets", "--json").stdout)
    assert {"car", "nursery", "iris"} <= {row["name"] for row in rows}
    assert all(row["source"] and row["licence"] for row in rows)
