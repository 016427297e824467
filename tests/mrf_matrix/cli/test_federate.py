"""`mrf-matrix federate`: a whole rehearsal, and the published forests of parties."""

import json

import pytest
from command_line import run, told

pytest.importorskip("cryptography")

from mrf_matrix import Attribute, Domain, load_release
from mrf_matrix.mechanisms import ZCDP

QUICK = ["--n-trees", "8", "--max-depth", "2", "--strategy", "identity"]


def simulated(*options):
    return run("federate", "simulate", "car", *QUICK, *options)


def test_a_rehearsal_reports_and_writes_its_release(tmp_path):
    file = tmp_path / "car.mrf"
    done = simulated(
        "--by", "doors", "--dropouts", "1", "--vanish", "1", "--json", "--output", file
    )
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["contributors"] == 3
    assert report["parties"] == ["doors=2", "doors=3", "doors=4", "doors=5more"]
    release = load_release(file)
    assert release.statement == report["claim"]
    assert release.quorum.parties == 4
    again = simulated("--by", "doors", "--output", file)
    assert again.exit_code == 1
    assert "is there already" in again.output


@pytest.mark.parametrize("kind", ["tables", "naive_bayes"])
def test_tables_of_blocks_are_released_in_the_same_rounds(tmp_path, kind):
    asked = ("federate", "simulate", "car", "--by", "doors", "--kind", kind)
    done = run(*asked, "--output", tmp_path / "car.mrf")
    assert done.exit_code == 0, done.output
    assert load_release(tmp_path / "car.mrf").is_private


def test_forests_over_too_many_attributes_are_refused_with_what_this_command_can_do(tmp_path):
    names = [f"a{i}" for i in range(1200)]
    public = [Attribute(name, categories=["0", "1"]) for name in names]
    Domain(public, target=Attribute("y", categories=["n", "p"])).save(tmp_path / "wide.json")
    rows = [",".join([*names, "y"]), *[",".join([*"01" * 600, "p"])] * 4]
    (tmp_path / "wide.csv").write_text("\n".join(rows))
    wide = (tmp_path / "wide.csv", "--domain", tmp_path / "wide.json")
    found = run("federate", "simulate", *wide, "--by", "a0", "--epsilon", "1")
    assert found.exit_code == 1
    assert "1200 attributes of about 2^1200 cells" in found.output
    assert "Give --kind tables" in found.output
    assert "--max-features" not in found.output


def test_delta_is_shared_as_gaussian_noise(tmp_path):
    file = tmp_path / "car.mrf"
    options = ("--by", "doors", "--epsilon", "1", "--delta", "1e-6")
    done = simulated(*options, "--json", "--output", file)
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
    assert "conditional on every party of 4 contributing" in told(done)
    assert "the rehearsal is not" in told(done)


def compared(*options):
    quick = ["--n-trees", "8", "--n-splits", "2", *options]
    return run("federate", "forests", "monks_1", *quick)


def test_the_published_forests_are_compared_and_called_not_private():
    done = compared("--clients", "3", "--chunks", "2")
    assert done.exit_code == 0, done.output
    assert "centralised" in told(done)
    assert "NOT A PRIVATE RELEASE" in told(done)
    assert "NOT private" in told(compared("--help"))


def test_forests_of_given_parties_as_json():
    done = compared("--by", "a5", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["claim"].startswith("NOT A PRIVATE RELEASE")
    assert [len(row["accuracies"]) for row in report["systems"]] == [2] * 6
    assert all(0 <= a <= 1 for row in report["systems"] for a in row["accuracies"])
