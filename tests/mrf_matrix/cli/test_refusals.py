"""What every command refuses: in one line, without a private value, at no charge, and no file."""

import csv
import re

import narwhals
import polars
import pyarrow
import pytest
from command_line import run, told

from mrf_matrix import (
    Attribute,
    Domain,
    PrivacyLedger,
    PrivateNaiveBayesClassifier,
    load_dataset,
    save_model,
)
from mrf_matrix.estimators import PosteriorForestClassifier

# Words that a command cannot follow ---------------------------------------------------------------

PLAIN = "--n-trees 4 --max-depth 2 --strategy identity --time-limit 0.2"
START = {
    "fit": "--output {}/new.mrf --ledger {}/ledger.json",
    "predict": "--output {}/labels.csv",
    "evaluate": "--ledger {}/ledger.json",
    "plan": "--output {}/results",
    "tune": "--output {}/results",
    "compare": "--output {}/results",
}
"""What is asked of a command before the words that it refuses."""

REFUSED = [
    ("no-such-command", "No such command"),
    ("fit monks_1 --epsilon 0", "positive"),
    ("fit monks_1 --epsilon inf", "finite"),
    ("fit monks_1 --epsilon 1/0", "expected a finite number"),
    ("fit monks_1 --epsilon much", "expected a finite number"),
    ("fit monks_1 --epsilon 1 --rho 1", "exactly one"),
    ("fit monks_1 --epsilon 6", "remains"),
    ("fit monks_1 --target x", "--target"),
    ("fit monks_1 --strategy magic", "magic"),
    ("fit monks_1 --ledger {}/no.json", "mrf-matrix ledger {}/no.json --epsilon E"),
    ("fit monks_1 --output {}/no/m.mrf", "no folder"),
    ("fit monks_1 --n-trees 2 --max-depth -1", "depth"),
    ("fit monks_1 --max-depth deep", "expected a whole number"),
    ("fit monks_1 --kind magic", "magic"),
    ("fit monks_1 --kind matrix --n-blocks 2", "--n-blocks: no option of --kind matrix"),
    ("fit monks_1 --kind matrix --voting loudest", "loudest"),
    ("fit monks_1 --kind tables --n-trees 8", "--n-trees: no option of --kind tables"),
    ("fit monks_1 --kind tables --max-depth 2", "--max-depth: no option of --kind tab"),
    ("fit monks_1 --kind tables --time-limit 8", "--time-limit"),
    ("fit monks_1 --kind tables --n-blocks 0", "0"),
    ("fit monks_1 --kind tables --n-blocks 99", "--n-blocks 99: expected at most 6"),
    ("fit monks_1 --kind tables --n-records -1", "-1"),
    ("fit monks_1 --kind tables --beside additive", "--beside: no option"),
    ("fit monks_1 --kind additive --n-trees 8", "--n-trees: no option of --kind additive"),
    ("fit monks_1 --kind additive --beside tables", "--beside: no option"),
    ("fit monks_1 --kind additive --epsilon 0.001 --strict", "do not deploy"),
    ("fit monks_1 --kind labels --n-blocks 2", "--n-blocks: no option of --kind labels"),
    ("fit monks_1 --kind labels --alpha 2", "--alpha: no option of --kind labels"),
    ("fit monks_1 --kind labels --epsilon 0.001 --strict", "do not deploy"),
    ("fit monks_1 --kind pool --strategy auto", "--strategy: no option"),
    ("fit monks_1 --kind pool --beside trees", "trees"),
    ("fit monks_1 --kind naive_bayes --random-state 1", "--random-state: no option"),
    ("fit monks_1 --kind naive_bayes --alpha 0", "--alpha 0"),
    ("fit monks_1 --kind naive_bayes --voting hard", "--voting: no option"),
    ("fit monks_1 --kind naive_bayes --epsilon 0.001 --strict", "do not deploy"),
    ("fit monks_1 --kind auto --alpha 1", "--alpha: no option of --kind auto"),
    ("fit {}/records.csv", "domain"),
    ("fit {}/records.csv --domain {}/domain.json --target nothing", "nothing"),
    ("fit {}/records.xlsx --domain {}/domain.json", "spreadsheet"),
    ("fit {}/empty --domain {}/domain.json --kind additive", "found none"),
    ("predict {model} {}/domain.json", "is there, but of no kind that records are read from"),
    ("predict {model} {}/no.json", "No data set"),
    ("predict {model} {}/short.csv", "'a2'"),
    ("predict {model} monks_1 --voting weight", "one rule only"),
    ("predict {model} monks_1 --threshold 0", "--threshold 0.0: expected a number between 0 and 1"),
    ("predict {model} monks_1 --threshold 1", "--threshold 1.0: expected a number between 0 and 1"),
    ("predict {model} monks_1 --threshold nan", "expected a finite number such as 0.5"),
    ("predict {model} monks_1 --threshold half", "half"),
    (
        "predict {model} monks_1 --threshold 0.3 --abstain 0.9",
        "--threshold 0.3 beside --abstain 0.9",
    ),
    ("predict {}/car.mrf car --threshold 0.5", "a threshold is of two classes"),
    ("predict {model} monks_1 --output {}/labels.xlsx", "spreadsheets"),
    ("evaluate {model} monks_1", "no budget"),
    ("evaluate {model} monks_1 --delta 1e-6", "no budget"),
    ("evaluate {model} monks_1 --epsilon inf", "finite"),
    ("evaluate {model} monks_1 --epsilon 6", "remains"),
    ("evaluate {model} monks_1 --epsilon 1 --neighboring replace_one", "add_remove"),
    ("evaluate {model} monks_1 --epsilon 1 --threshold 2", "--threshold 2"),
    ("evaluate {model} monks_1 --epsilon 1 --n-bins 0", "--n-bins 0"),
    ("evaluate {model} monks_1 --epsilon 1 --output {}/no/e.json", "no folder"),
    ("evaluate {model} monks_1 --epsilon 1 --ledger {}/no.json", "mrf-matrix ledger {}/no.json"),
    ("report {model} --ledger {}/no.json", "mrf-matrix ledger {}/no.json --epsilon E"),
    ("plan no_such_data", "no_such_data"),
    ("plan records.csv", "reads no records"),
    ("plan missing.json", "missing.json"),
    ("plan monks_1 --max-depth -1", "depth"),
    ("plan monks_1 --max-features 9", "--max-features 9"),
    ("plan monks_1 --epsilon 0", "positive"),
    ("plan monks_1 --kind tables --n-trees 9", "--n-trees: no option"),
    ("plan car --kind auto --n-trees 8", "--n-trees: no option of --kind auto"),
    ("plan car --kind auto --n-blocks 2 --voting hard", "--n-blocks, --voting: no option"),
    ("plan car --kind auto --target-rms 3 --time-limit 1", "--time-limit, --target-rms"),
    ("plan car --kind auto --parties 3", "--parties: no option of --kind auto"),
    ("plan car --kind auto --epsilon auto", "--epsilon 'auto'"),
    ("plan car --kind auto --epsilon 1 --rho 1", "exactly one"),
    ("plan car --kind auto --rho 1 --delta 1e-6", "delta"),
    ("plan car --kind auto --n-records 0", "0"),
    ("plan car --kind auto --epsilon 0.0001 --strict", "do not deploy"),
    ("plan records.csv --kind auto", "reads no records"),
    ("plan {}/no_target.json --kind auto", "no target"),
    ("tune monks_1 --max-features 9", "no design was feasible"),
    ("tune monks_1 --kind tables --max-depth 2", "--max-depth: no option"),
    ("tune monks_1 --kind matrix --n-blocks 2", "--n-blocks"),
    ("tune monks_1 --kind additive --n-blocks 2", "--n-blocks: no option"),
    ("tune monks_1 --kind labels", "--kind labels: its designs"),
    (f"tune monks_1 {PLAIN} --max-release-seconds 1e-9", "--max-release-seconds"),
    ("compare no_such_data", "no_such_data"),
    ("compare monks_1 --epsilons 0", "epsilon"),
    ("compare monks_1 --epsilons one", "numbers separated by commas"),
    ("compare monks_1 --max-depth -1", "depth"),
    ("compare monks_1 --n-trees 0", "trees"),
    ("plan car --epsilon 1 --rho 1", "--epsilon 1.0 and --rho 1.0: expected exactly one"),
    ("plan car --kind labels --epsilon 1e9", "exact choices: expected a smaller one."),
    ("plan car --strategy nosuch", "--strategy 'nosuch': expected 'auto'"),
    ("plan car --kind matrix --max-depth -1", "--max-depth -1: expected at least 0"),
    ("plan car --budget-shares 1,2", "--budget-shares [1.0, 2.0] for 1 ensembles"),
    ("plan car --strict --n-records 3", "Error: --strict: a typical"),
    ("fit monks_1 --strict --epsilon 1e-3", "Error: --strict: a typical"),
    ("compare monks_1 --kind nosuch", "--kind 'nosuch': expected one of auto"),
    ("compare monks_1 --n-draws 0", "--n-draws 0"),
    ("compare monks_1 --strategy magic", "magic"),
    ("compare monks_1 --kind residuals", "additive, labels, pool"),
    ("federate simulate car --by colour", "expected an attribute"),
    (f"federate simulate car {PLAIN} --by doors --dropouts 4", "nobody's noise"),
    (f"federate simulate car {PLAIN} --by doors --vanish 5", "expected 0 to 4"),
    (f"federate simulate car {PLAIN} --by doors --dropouts 1 --vanish 2", "Nothing was opened"),
    ("federate simulate car --by doors --epsilon 1 --rho 1", "exactly one"),
    ("federate simulate car --by doors --kind tables --n-trees 4", "no option of --kind"),
    ("federate forests monks_1 --by colour", "expected an attribute"),
    ("federate forests monks_1 --by a5 --chunks 2", "no option of --by"),
    ("federate forests monks_1 --clients 0", "n_clients=0: expected at least 1"),
    ("federate forests monks_1 --random-state -1", "-1 is not in the range"),
    ("ledger {}/no.json", "--epsilon or --rho"),
    ("ledger {}/ledger.json --epsilon 6", "keeps its terms"),
    ("ledger {}/domain.json", "domain.json"),
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Return a folder of a ledger, a domain, records and a model of three classes."""
    folder, monks, car = (
        tmp_path_factory.mktemp("desk"),
        load_dataset("monks_1"),
        load_dataset("car"),
    )
    PrivacyLedger.open(folder / "ledger.json", epsilon=5)
    monks.domain.save(folder / "domain.json")
    Domain.from_sizes([4] * 6).save(folder / "no_target.json")
    (folder / "records.csv").write_text("a1,a2\n1,1\n")
    (folder / "short.csv").write_text("a1\n1\n")
    (folder / "empty").mkdir()
    classes = PrivateNaiveBayesClassifier(car.domain, epsilon=1).fit(car.X, car.y)
    save_model(classes, folder / "car.mrf")
    return folder


@pytest.mark.parametrize(("words", "said"), REFUSED)
def test_what_is_refused_is_one_clear_line_at_no_charge(desk, tables_file, request, words, said):
    command, *more = words.split()
    if command in ("plan", "tune"):
        request.getfixturevalue("no_records")
    given = START.get(command, "").split()
    before = files(desk)
    asked = [one.format(desk, model=tables_file) for one in (*given, *more)]
    done = run(command, *asked)
    assert done.exit_code in (1, 2), done.output
    assert said.format(desk) in told(done)
    assert "Traceback" not in done.output
    assert len([one for one in done.output.splitlines() if one.startswith("Error")]) == 1
    assert files(desk) == before


def files(desk):
    """Return what a folder holds: locks apart, and plans and comparisons, which cost nothing."""
    return {one: one.read_bytes() for one in desk.glob("*.*") if one.suffix != ".lock"}


@pytest.mark.parametrize(
    "kind",
    ["additive", "labels", "pool", "pool --beside additive", "naive_bayes", "tables", "auto"],
)
@pytest.mark.parametrize("delta", [[], ["--delta", "1e-6"]])
def test_an_overdraft_is_refused_before_the_records_are_looked_for(tmp_path, kind, delta):
    load_dataset("monks_1").domain.save(tmp_path / "domain.json")
    run("ledger", tmp_path / "ledger.json", "--epsilon", "1", *delta)
    asked = ("--domain", tmp_path / "domain.json", "--output", tmp_path / "m", "--epsilon", "2")
    given = ("--ledger", tmp_path / "ledger.json", "--kind", *kind.split(), *delta)
    done = run("fit", tmp_path / "not_there.csv", *asked, *given)
    assert done.exit_code == 1
    assert "no such file" not in done.output
    assert "ledger" in done.output


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06" + bytes(18), b"\x80\x04K\x01."])
def test_files_that_are_no_models_are_refused_in_one_line(tmp_path, content):
    (tmp_path / "bad.mrf").write_bytes(content)
    done = run("predict", tmp_path / "bad.mrf", "monks_1")
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert "bad.mrf" in done.output
    assert done.output.count("\n") == 1


def test_a_data_file_beside_its_domain_is_planned_for_and_not_opened(tmp_path):
    Domain.from_sizes([2, 3], n_classes=2).save(tmp_path / "two.json")
    more = ["--n-trees", 2, "--max-depth", 1, "--no-pictures", "--output", tmp_path / "results"]
    done = run("plan", tmp_path / "absent.csv", "--domain", tmp_path / "two.json", *more)
    assert done.exit_code == 0, done.output
    assert "Plan for two" in told(done)


# Records that cannot be read ----------------------------------------------------------------------

N, SECRET = 137, "sekret"
DOMAIN = Domain(
    [Attribute("age", edges=[0, 50, 100]), Attribute("sex", categories=["F", "M"])],
    Attribute("income", categories=["low", "high"]),
)
HEADER, ROW = ("age", "sex", "income"), ("30", "F", "low")
FILES = {
    "category": (HEADER, ("30", SECRET, "low")),
    "number": (HEADER, (SECRET, "F", "low")),
    "fields": (HEADER, ("30", "F", "low", SECRET)),
    "no header": ((SECRET, "F", "low"), ROW),
}


def write(path, header, last):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *[ROW] * (N - 1), last])
    return path


@pytest.fixture
def folder(tmp_path):
    DOMAIN.save(tmp_path / "domain.json")
    model = PosteriorForestClassifier(DOMAIN, epsilon=1).fit([[30, "F"], [60, "M"]], ["low"] * 2)
    save_model(model, tmp_path / "good.mrf")
    return tmp_path


def commands(folder, file):
    """Return a fit from and a prediction of a file."""
    told_of = ("--domain", folder / "domain.json", "--kind", "tables")
    yield ("fit", file, *told_of, "--output", folder / "m.mrf")
    yield ("predict", folder / "good.mrf", file)


@pytest.mark.parametrize("case", FILES)
def test_values_are_shown_with_debug_only(case, folder):
    for command in commands(folder, write(folder / "bad.csv", *FILES[case])):
        done = run(*command)
        assert done.exit_code == 1
        words = done.output.replace(str(folder), "")
        assert words.startswith("Error: ")
        assert words.count("\n") == 1
        assert SECRET not in words
        assert str(N) not in re.findall(r"\d+", words)
        debugged = run(*command, "--debug")
        assert debugged.exit_code == 1
        assert case == "no header" or f"'{SECRET}'" in debugged.output
        assert "--debug: what follows may show private values" in debugged.output
        assert "Traceback" in debugged.output
        assert debugged.output.endswith(done.output)
    assert not (folder / "m.mrf").exists()


def test_a_corrupt_parquet_file_is_one_line(folder):
    (folder / "bad.parquet").write_bytes(b"PAR1" + SECRET.encode() * 40 + b"PAR1")
    done = run(*next(commands(folder, folder / "bad.parquet")))
    assert done.exit_code == 1
    assert done.output.count("\n") == 1
    assert "is no Parquet file" in done.output
    assert SECRET not in done.output


ERRORS = {
    "polars": (polars.exceptions.ComputeError(SECRET), "polars cannot read the data"),
    "narwhals": (narwhals.exceptions.DuplicateError(SECRET), "narwhals cannot read the data"),
    "pyarrow": (pyarrow.lib.ArrowInvalid(SECRET), "pyarrow cannot read the data"),
    "overflow": (OverflowError(SECRET), "too large"),
    "memory": (MemoryError(), "Out of memory"),
    "file": (FileNotFoundError(2, "No such file", "x.csv"), "x.csv"),
    "words of another library": (ValueError(SECRET), "cannot be used"),
}
BUGS = {"key": KeyError("x"), "attribute": AttributeError("x"), "index": IndexError("x")}


@pytest.fixture
def raising(folder, monkeypatch):
    """Return a function: what a fit says in which an error is raised while records are read."""

    def said(error, *more):
        def fails(*words, **named):
            raise error

        monkeypatch.setattr(PosteriorForestClassifier, "fit_stream", fails)
        return run(*next(commands(folder, write(folder / "good.csv", HEADER, ROW))), *more)

    return said


@pytest.mark.parametrize("case", ERRORS)
def test_whatever_readers_raise_is_one_line(case, raising):
    error, words = ERRORS[case]
    done = raising(error, "-q")
    assert done.exit_code == 1
    assert words in done.output
    assert done.output.count("\n") == 1
    assert SECRET not in done.output
    assert "Traceback" in raising(error, "--debug").output


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_bugs_are_not_hidden(bug, raising):
    assert raising(bug).exception is bug
