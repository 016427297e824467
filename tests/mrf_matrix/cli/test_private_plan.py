"""Which kind of forest `fit` would take, planned from the command line without a record."""

import json

import pytest
from click.testing import CliRunner

from mrf_matrix import Domain, PrivateForestClassifier
from mrf_matrix.cli.main import main
from mrf_matrix.datasets.built_in import RuleSet
from mrf_matrix.planning.public_domain import public_domain


@pytest.fixture(autouse=True)
def no_records(monkeypatch):
    """Loading a data set fails: planning that touches records cannot pass."""

    def refuse(*anything, **named):
        raise AssertionError("records were read")

    monkeypatch.setattr(RuleSet, "load", refuse)
    monkeypatch.setattr("mrf_matrix.datasets.files.read_file", refuse)


def run(folder, *arguments):
    words = [str(one) for one in ("plan", *arguments, "--output", folder)]
    return CliRunner().invoke(main, words)


def words_of(text):
    return " ".join(text.split())


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
    domain, _ = public_domain(data)
    records = {"car": 1728, "monks_1": 432}[data]  # as published
    planned = PrivateForestClassifier(domain, n_records=records, **claim).plan()
    done = run(tmp_path, data, *kind, *options)
    assert done.exit_code == 0, done.output
    shown = words_of(done.output)
    for near in (planned.below, planned.above):
        assert near is None or (near[1] in shown and f"{near[0]:,.0f}" in shown)
    for text in ("taken", "by row", "worth", "share", "no record read", "Signal and noise"):
        assert text in shown
    assert words_of(planned.reason) in shown
    stored = json.loads((tmp_path / "plan.json").read_text())
    assert stored["reason"] == planned.reason
    assert stored["records"] == records
    assert {file.name for file in tmp_path.iterdir()} == {"plan.json"}


def test_choices_and_the_rest_of_the_budget_are_steps(tmp_path):
    file = tmp_path / "schema.json"
    Domain.from_sizes([4] * 30, n_classes=2).save(file)
    arguments = [file, "--kind", "auto", "--n-records", 20_000, "--random-state", 3]
    done = run(tmp_path, *arguments)
    assert done.exit_code == 0, done.output
    for text in ("how rare the rarer class is", "which attribute is kept, choice 1", "a choice",
                 "as chosen", "those of even classes"):  # fmt: skip
        assert text in words_of(done.output)
    record = json.loads(run(tmp_path, *arguments, "--json").stdout)
    assert record["kind"] == "auto"
    assert sum(step["share"] for step in record["steps"]) == pytest.approx(1)
    assert record["screened"]
    assert record["rule"]["forest"] == record["forest"]
    assert record["below"]["up_to"] < record["signal"]


def test_without_a_number_of_records_it_says_so(tmp_path):
    file = tmp_path / "schema.json"
    Domain.from_sizes([4] * 6, n_classes=3).save(file)
    done = run(tmp_path, file, "--kind", "auto")
    assert done.exit_code == 0, done.output
    assert "need a public n_records" in words_of(done.output)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["car", "--n-trees", "8"], "--n-trees: no option of --kind auto"),
        (["car", "--n-blocks", "2", "--voting", "hard"], "--n-blocks, --voting: no option"),
        (["car", "--target-rms", "3", "--time-limit", "1"], "--time-limit, --target-rms"),
        (["car", "--parties", "3"], "--parties: no option of --kind auto"),
        (["car", "--epsilon", "auto"], "epsilon='auto'"),
        (["car", "--epsilon", "1", "--rho", "1"], "exactly one"),
        (["car", "--rho", "1", "--delta", "1e-6"], "delta"),
        (["car", "--n-records", "0"], "0"),
        (["car", "--epsilon", "0.0001", "--strict"], "do not deploy"),
        (["records.csv"], "reads no records"),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path, arguments, message):
    done = run(tmp_path, *arguments, "--kind", "auto")
    assert done.exit_code != 0
    assert message in words_of(done.output)
    assert "Traceback" not in done.output


def test_a_domain_without_classes_is_refused(tmp_path):
    file = tmp_path / "schema.json"
    Domain.from_sizes([4] * 6).save(file)
    done = run(tmp_path, file, "--kind", "auto")
    assert done.exit_code == 1
    assert "no target" in done.output
