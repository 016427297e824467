"""Planning from the command line, with every way to the records closed."""

import json

import pytest
from click.testing import CliRunner

from mrf_matrix import Domain
from mrf_matrix.cli.main import main
from mrf_matrix.datasets.built_in import RuleSet, ScikitSet

SMALL = ["--n-trees", "4", "--max-depth", "2", "--strategy", "identity", "--time-limit", "0.2"]
FEW = ["--max-depth", "1,2", "--n-trees", "4", "--strategy", "identity", "--time-limit", "0.2"]


@pytest.fixture(autouse=True)
def no_records(monkeypatch):
    """Loading any data set fails: planning that touches records cannot pass."""

    def refuse(*anything, **named):
        raise AssertionError("records were read")

    monkeypatch.setattr(RuleSet, "load", refuse)
    monkeypatch.setattr(ScikitSet, "load", refuse)
    monkeypatch.setattr("mrf_matrix.datasets.files.read_file", refuse)


def run(*arguments):
    return CliRunner().invoke(main, list(arguments))


def test_plan_prints_tables_and_writes_record_and_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    done = run("plan", "monks_1", *SMALL, "--output", str(tmp_path))
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
        "plan.json",
        "error.png",
        "strategies.png",
        "leaves.png",
        "sensitivity.png",
    }
    stored = json.loads((tmp_path / "plan.json").read_text())
    assert stored["records"] == 432


@pytest.mark.parametrize("kind", ["matrix", "batch", "subsample"])
def test_plan_of_a_domain_file(tmp_path, kind):
    file = tmp_path / "schema.json"
    Domain.from_sizes([3, 4, 2], n_classes=2).save(file)
    done = run(
        "plan",
        str(file),
        *SMALL,
        "--kind",
        kind,
        "--rho",
        "0.5",
        "--json",
        "--no-pictures",
        "--output",
        str(tmp_path),
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["budget"] == "ZCDP(rho=0.5)"


def test_tune_prints_a_table_and_resumes(tmp_path):
    pytest.importorskip("matplotlib")
    arguments = ["tune", "monks_1", *FEW, "--output", str(tmp_path)]
    file = ["--resume", str(tmp_path / "trials.json")]
    first = run(*arguments, *file)
    assert first.exit_code == 0, first.output
    assert "Best: " in first.output
    again = run(*arguments, *file, "--json", "--no-pictures")
    assert len(json.loads(again.stdout)["trials"]) == 8
    assert (tmp_path / "designs.png").exists()


@pytest.mark.slow
def test_tune_tries_both_kinds_of_forest_unless_told(tmp_path):
    arguments = ["tune", "monks_1", "--json", "--no-pictures", "--output", str(tmp_path)]
    both = ["--max-depth", "1", "--n-trees", "4", "--splits", "multiway", "--n-blocks", "auto,3"]
    found = json.loads(run(*arguments, *both).stdout)
    assert [trial["kind"] for trial in found["trials"]].count("tables") == 2
    assert len(found["trials"]) == 4  # two votings of the trees
    assert found["kind"] == "tables"
    assert found["best_params"]["n_blocks"] in ("auto", 3)
    table = run("tune", "monks_1", *both, "--no-pictures", "--output", str(tmp_path))
    assert "n_blocks" in table.output
    assert "Best: kind tables" in table.output
    alone = json.loads(run(*arguments, "--n-blocks", "2").stdout)
    assert [trial["n_blocks"] for trial in alone["trials"]] == [2]


@pytest.mark.slow
def test_tune_tries_residual_forests_where_they_suit(tmp_path, monkeypatch):
    few = {"max_depth": [1], "n_trees": [4], "strategy": ["identity"]}
    monkeypatch.setattr(
        "mrf_matrix.planning.search.search_space.default_space",
        lambda domain, kind: few if kind == "matrix" else {},
    )
    file = tmp_path / "schema.json"
    Domain.from_sizes([3] * 8, n_classes=2).save(file)
    options = ["--n-records", "3000", "--epsilon", "1", "--no-pictures", "--output", str(tmp_path)]
    done = run("tune", str(file), *options)
    assert done.exit_code == 0, done.output
    assert "additive" in done.output
    found = json.loads((tmp_path / "tune.json").read_text())
    assert {trial["kind"] for trial in found["trials"]} == {"tables", "additive", "matrix"}
    assert "--kind additive" in done.output or found["kind"] != "additive"
    options[1] = "100000000"
    late = run("tune", str(file), *options)
    assert late.exit_code == 0, late.output
    assert "--max-seconds 45 is too short to judge it" in " ".join(late.output.split())


def test_a_posterior_plan_is_planned_by_its_leaves(tmp_path):
    pytest.importorskip("matplotlib")
    arguments = ["plan", "monks_1", "--kind", "tables", "--n-blocks", "3"]
    done = run(*arguments, "--output", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert "expected rms per leaf" in done.output
    assert "rms per vote" not in done.output
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "error.png", "leaves.png", "sensitivity.png"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "no_such_data"], "no_such_data"),
        (["plan", "records.csv"], "reads no records"),
        (["plan", "missing.json"], "missing.json"),
        (["plan", "monks_1", "--max-depth", "-1"], "depth"),
        (["plan", "monks_1", "--max-features", "9"], "--max-features 9"),
        (["plan", "monks_1", "--epsilon", "0"], "positive"),
        (["tune", "monks_1", "--max-features", "9"], "no design was feasible"),
        (["tune", "monks_1", "--kind", "tables", "--max-depth", "2"], "--max-depth: no option"),
        (["tune", "monks_1", "--kind", "matrix", "--n-blocks", "2"], "--n-blocks"),
        (["tune", "monks_1", "--kind", "additive", "--n-blocks", "2"], "--n-blocks: no option"),
        (["tune", "monks_1", "--kind", "labels"], "--kind labels: its designs"),
        (["plan", "monks_1", "--kind", "tables", "--n-trees", "9"], "--n-trees: no option"),
        (["tune", "monks_1", *FEW, "--max-release-seconds", "1e-9"], "max_release_seconds"),
    ],
)
def test_bad_input_is_one_clear_line(arguments, message, tmp_path):
    done = run(*arguments, "--output", str(tmp_path))
    assert done.exit_code != 0
    assert message in done.output
    assert "Traceback" not in done.output
