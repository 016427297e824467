"""`mrf-matrix federate simulate`: a whole rehearsal from the command line."""

import json

import pytest
from click.testing import CliRunner

pytest.importorskip("cryptography")

from mrf_matrix import Attribute, Domain, load_release
from mrf_matrix.cli.main import main
from mrf_matrix.mechanisms import ZCDP

QUICK = ["--n-trees", "8", "--max-depth", "2", "--strategy", "identity"]


def simulated(*options):
    return CliRunner().invoke(main, ["federate", "simulate", "car", *QUICK, *options])


def test_a_rehearsal_reports_and_writes_its_release(tmp_path):
    file = tmp_path / "car.mrf"
    done = simulated(
        "--by", "doors", "--dropouts", "1", "--vanish", "1", "--json", "--output", str(file)
    )
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["contributors"] == 3
    assert report["parties"] == ["doors=2", "doors=3", "doors=4", "doors=5more"]
    release = load_release(file)
    assert release.statement == report["claim"]
    assert release.quorum.parties == 4
    again = simulated("--by", "doors", "--output", str(file))
    assert again.exit_code == 1
    assert "is there already" in again.output


@pytest.mark.parametrize("kind", ["tables", "naive_bayes"])
def test_tables_of_blocks_are_released_in_the_same_rounds(tmp_path, kind):
    told = ["federate", "simulate", "car", "--by", "doors", "--kind", kind]
    done = CliRunner().invoke(main, [*told, "--output", str(tmp_path / "car.mrf")])
    assert done.exit_code == 0, done.output
    assert load_release(tmp_path / "car.mrf").is_private
    refused = CliRunner().invoke(main, [*told, "--n-trees", "4"])
    assert "no option of --kind" in refused.output


def test_forests_over_too_many_attributes_are_refused_with_what_this_command_can_do(tmp_path):
    names = [f"a{i}" for i in range(1200)]
    public = [Attribute(name, categories=["0", "1"]) for name in names]
    Domain(public, target=Attribute("y", categories=["n", "p"])).save(tmp_path / "wide.json")
    rows = [",".join([*names, "y"]), *[",".join([*"01" * 600, "p"])] * 4]
    (tmp_path / "wide.csv").write_text("\n".join(rows))
    told = ["federate", "simulate", tmp_path / "wide.csv", "--domain", tmp_path / "wide.json"]
    found = CliRunner().invoke(main, [*map(str, told), "--by", "a0", "--epsilon", "1"])
    assert found.exit_code == 1
    assert "1200 attributes of about 2^1200 cells" in found.output
    assert "Give --kind tables" in found.output
    assert "--max-features" not in found.output


def test_delta_is_shared_as_gaussian_noise(tmp_path):
    file = tmp_path / "car.mrf"
    options = ("--by", "doors", "--epsilon", "1", "--delta", "1e-6")
    done = simulated(*options, "--json", "--output", str(file))
    assert done.exit_code == 0, done.output
    claim = json.loads(done.stdout)["claim"]
    assert "(epsilon=1, delta=1e-06)-DP via ZCDP(rho=0.024" in claim
    assert "conditional on every party" in claim
    release = load_release(file)
    assert release.budget == ZCDP.for_approximate_dp(1.0, 1e-6)
    assert "discrete Gaussian" in str(release.law)


def test_people_read_a_table():
    done = simulated("--by", "buying", "--rho", "1")
    assert done.exit_code == 0, done.output
    assert "conditional on every party of 4 contributing" in " ".join(done.output.split())
    assert "the rehearsal is not" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--by", "colour"], "expected an attribute"),
        (["--by", "doors", "--dropouts", "4"], "nobody's noise"),
        (["--by", "doors", "--vanish", "5"], "expected 0 to 4"),
        (["--by", "doors", "--dropouts", "1", "--vanish", "2"], "Nothing was opened"),
        (["--by", "doors", "--epsilon", "1", "--rho", "1"], "exactly one"),
    ],
)
def test_bad_input_ends_in_one_line(options, told):
    done = simulated(*options)
    assert done.exit_code == 1
    assert told in done.output


def compared(*options):
    quick = ["--n-trees", "8", "--n-splits", "2", *options]
    return CliRunner().invoke(main, ["federate", "forests", "monks_1", *quick])


def test_the_published_forests_are_compared_and_called_not_private():
    done = compared("--clients", "3", "--chunks", "2")
    assert done.exit_code == 0, done.output
    told = " ".join(done.output.split())
    assert "centralised" in told
    assert "NOT A PRIVATE RELEASE" in told
    assert "NOT private" in " ".join(compared("--help").output.split())


def test_forests_of_given_parties_as_json():
    done = compared("--by", "a5", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["claim"].startswith("NOT A PRIVATE RELEASE")
    assert [len(row["accuracies"]) for row in report["systems"]] == [2] * 6
    assert all(0 <= a <= 1 for row in report["systems"] for a in row["accuracies"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--by", "colour"], "expected an attribute"),
        (["--by", "a5", "--chunks", "2"], "no option of --by"),
        (["--clients", "0"], "n_clients=0: expected at least 1"),
        (["--random-state", "-1"], "-1 is not in the range"),
    ],
)
def test_bad_input_of_forests_ends_in_one_line(options, told):
    done = compared(*options)
    assert done.exit_code != 0
    (line,) = [line for line in done.output.splitlines() if line.startswith("Error")]
    assert told in line
