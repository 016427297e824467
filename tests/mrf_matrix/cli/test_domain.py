"""`mrf-matrix domain`, and the ways of records through the commands: TSV, Parquet, kept columns."""

import csv
import json
import subprocess
import sys

import pytest
from command_line import run

from mrf_matrix import Domain, load_model

HEADER = ["patient_id", "age", "code", "smoker", "outcome"]
ROWS = [
    [f"p{i}", str(20 + i % 60), ["E10.1", "I21", "I50"][i % 3], ["yes", "no", "9"][i % 3],
     ["no", "yes"][i % 2]]
    for i in range(60)
]  # fmt: skip
SETS = {
    "patient_id": "skip",
    "age": "0..100 by 20",
    "code": "icd10_chapters",
    "smoker": "yes, no +missing=9",
    "outcome": "no, yes",
}


def write(path, rows=ROWS, header=HEADER):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerows([header, *rows])
    return path


@pytest.fixture
def folder(tmp_path):
    records = write(tmp_path / "records.csv")
    told = [word for name, words in SETS.items() for word in ("--set", f"{name}={words}")]
    made = run("domain", "new", tmp_path / "d.json", "--header", records, "--target", "outcome",
               *told)  # fmt: skip
    assert made.exit_code == 0, made.output
    return tmp_path


def fit(folder, records, *more, name="m.mrf"):
    done = run("fit", records, "--domain", folder / "d.json", "--kind", "tables",
               "--output", folder / name, *more)  # fmt: skip
    assert done.exit_code == 0, done.output
    return done


def test_a_domain_is_written_from_a_header_without_a_record(folder):
    domain = Domain.load(folder / "d.json")
    assert domain.names == ("age", "code", "smoker")
    assert domain.sizes == (5, 22, 3)
    assert domain.classes == ("no", "yes")


def test_a_first_line_that_is_a_record_is_not_published(folder):
    bare = write(folder / "bare.csv", rows=(), header=("71734", "E11", "SECRET", "no"))
    done = run("domain", "new", folder / "bare.json", "--header", bare)
    assert done.exit_code == 1
    assert "column names" in done.output
    assert "71734" not in done.output
    assert "SECRET" not in done.output
    assert not (folder / "bare.json").exists()
    plain = write(folder / "plain.csv", rows=(), header=("0", "1", "y"))  # as pandas writes arrays
    told = [word for name in "01y" for word in ("--set", f"{name}=a, b")]
    done = run("domain", "new", folder / "plain.json", "--header", plain, "--target", "y", *told)
    assert done.exit_code == 0, done.output


def test_questions_are_asked_again_until_they_are_answered(folder):
    answers = ["skip", "0..100 by 20", "many", "icd10_chapters", "yes, no +missing=9", "no, yes"]
    asked = run("domain", "new", folder / "e.json", "--header", folder / "records.csv",
                input="\n".join([*answers, "", ""]))  # fmt: skip
    assert asked.exit_code == 0, asked.output
    assert Domain.load(folder / "e.json") == Domain.load(folder / "d.json")
    assert "p0" not in asked.output, "no record is shown"


def test_answers_that_end_early_write_nothing_and_say_so(folder):
    """Through a pipe: older test runners of click answer with empty lines for ever."""
    command = ["domain", "new", folder / "e.json", "--header", folder / "records.csv"]
    asked = subprocess.run(
        [sys.executable, "-c", "from mrf_matrix.cli.main import main; main()", *command],
        input="skip\nF, M +open\n", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    said = " ".join((asked.stdout + asked.stderr).split())
    assert asked.returncode == 1
    assert '"outside": "open" is for bin edges' in said, "no words of Python"
    assert "nothing was written" in said
    assert not (folder / "e.json").exists()


def test_check_tells_all_problems_at_once_and_no_value(folder):
    fine = run("domain", "check", folder / "d.json", folder / "records.csv")
    assert fine.exit_code == 0, fine.output
    assert "Ignored columns: patient_id." in fine.output
    bad = [["p1", "secret1", "Q", "maybe", "no"], ["p2", "500", "?", "yes", "perhaps"]]
    found = run("domain", "check", folder / "d.json", write(folder / "bad.csv", bad))
    assert found.exit_code == 1
    for column in ("'age'", "'code'", "'smoker'", "'outcome'"):
        assert column in found.output
    assert all("keep it from others" in one.output for one in (fine, found))
    said = found.output.replace(str(folder), "")  # the folder may be called 500
    assert not any(word in said for word in ("secret1", "maybe", "perhaps", "500", "p1"))
    data = json.loads((folder / "d.json").read_text())
    data["attributes"][0] = {"name": "age", "edges": [3, 1]}
    data["attributes"][2] = {"name": "smoker", "colour": "red"}
    (folder / "wrong.json").write_text(json.dumps(data))
    both = run("domain", "check", folder / "wrong.json")
    assert "increasing" in both.output
    assert "colour" in both.output
    assert "2 problems" in both.output


def test_a_domain_is_shown_and_the_schema_of_its_file_printed(folder):
    shown = run("domain", "show", folder / "d.json")
    assert "icd" not in shown.output
    assert "circulation" in shown.output
    assert json.loads(run("domain", "schema").output)["$defs"]["attribute"]


def test_tsv_is_read_and_spreadsheets_are_named(folder):
    fit(folder, write(folder / "records.tsv"))
    predicted = run("predict", folder / "m.mrf", folder / "records.tsv", "-q")
    assert predicted.output == run("predict", folder / "m.mrf", folder / "records.csv", "-q").output
    refused = run("fit", folder / "a.xlsx", "--domain", folder / "d.json", "--output",
                  folder / "x.mrf")  # fmt: skip
    assert "spreadsheet" in refused.output
    assert "CSV" in refused.output


def test_predictions_keep_columns_order_and_count(folder):
    polars = pytest.importorskip("polars")
    fit(folder, folder / "records.csv")
    model = load_model(folder / "m.mrf")
    records = polars.read_csv(folder / "records.csv", infer_schema=False)
    expected = model.predict(
        {"age": records["age"].cast(int).to_numpy(), "code": records["code"].to_list(),
         "smoker": [None if one == "9" else one for one in records["smoker"]]}
    ).tolist()  # fmt: skip
    polars.DataFrame(records).write_parquet(folder / "records.parquet")
    for output in ("out.csv", "out.tsv", "out.parquet"):
        done = run("predict", folder / "m.mrf", folder / "records.csv", "--keep", "patient_id,age",
                   "--output", folder / output)  # fmt: skip
        assert done.exit_code == 0, done.output
        found = (
            polars.read_parquet(folder / output)
            if output.endswith("parquet")
            else polars.read_csv(
                folder / output, separator="\t" if "tsv" in output else ",", infer_schema=False
            )
        )
        assert found.columns == ["patient_id", "age", "outcome"]
        assert found["patient_id"].to_list() == [row[0] for row in ROWS]
        assert found["outcome"].to_list() == expected
    assert "no column" in run("predict", folder / "m.mrf", folder / "records.csv", "--keep",
                              "id").output  # fmt: skip
    assert "Rename" in run("predict", folder / "m.mrf", folder / "records.csv", "--keep",
                           "outcome").output  # fmt: skip
    for keep in ("", " , ", "age,age"):
        done = run("predict", folder / "m.mrf", folder / "records.csv", "--keep", keep)
        assert done.exit_code == 2
        assert "--keep" in done.output
    clash = write(folder / "clash.csv", header=("outcome=no", *HEADER[1:]))
    asked = ("predict", folder / "m.mrf", clash, "--keep", "outcome=no")
    assert run(*asked).exit_code == 0
    assert "Rename" in run(*asked, "--proba").output


def test_outputs_and_evaluations_of_another_kind_are_refused(folder):
    fit(folder, folder / "records.csv")
    model, broken = folder / "m.mrf", folder / "e.json"
    broken.write_text("{nope")
    table = run("predict", model, folder / "records.csv", "--output", folder / "labels.xlsx")
    page = run("report", model, "--evaluation", broken, "--html", folder / "r.html")
    there = run("report", model, "--html", broken)
    for done, said in ((table, "spreadsheets"), (page, "is no JSON"), (there, "--html")):
        assert done.exit_code == 1, done.output
        assert said in done.output
    assert not (folder / "labels.xlsx").exists()
    assert not (folder / "r.html").exists()


def test_strict_refuses_before_anything_is_spent(folder):
    run("ledger", folder / "l.json", "--epsilon", "2")
    strict = ["--kind", "tables", "--strict", "--ledger", folder / "l.json", "--domain",
              folder / "d.json", "--output", folder / "s.mrf"]  # fmt: skip
    records = folder / "records.csv"
    refused = run("fit", records, *strict, "--epsilon", "0.001", "--n-records", "60")
    assert refused.exit_code == 1
    assert "do not deploy" in refused.output
    unknown = run("fit", records, *strict)
    assert "--n-records" in unknown.output
    assert not json.loads((folder / "l.json").read_text())["charges"]
    done = run("fit", records, *strict, "--n-records", "100000", "--purpose", "a test")
    assert done.exit_code == 0, done.output
    assert "Signal and noise" in done.output
    (charge,) = json.loads((folder / "l.json").read_text())["charges"]
    assert (charge["purpose"], charge["data"]) == ("a test", "records.csv")
    assert len(charge["model"]) == 64


@pytest.mark.parametrize(("flag", "said"), [("-q", False), ("-v", True)])
def test_quiet_and_verbose(folder, flag, said):
    done = fit(folder, folder / "records.csv", flag)
    assert ("Fitting the posterior" in done.output) is said
    assert ("Ignored columns" in done.output) is said


GERMAN = ("--separator", ";", "--decimal", ",", "--encoding", "latin-1")


def german(path, rows=ROWS):
    lines = [";".join(["", "größe", "größe", *HEADER])]
    lines += [";".join(["1", "ü", "", one[0], f"{one[1]},50", *one[2:]]) for one in rows]
    path.write_bytes("\r\n".join(lines).encode("latin-1"))
    return path


def test_files_of_another_dialect_go_through_every_command(folder):
    other, d = german(folder / "german.csv"), folder / "d.json"
    told = [word for name, words in SETS.items() for word in ("--set", f"{name}={words}")]
    new = ("domain", "new", folder / "g.json", "--header", other, "--target", "outcome", *told)
    done = run(*new, *GERMAN)
    assert done.exit_code == 0, done.output
    assert "More than one column is called größe: they are left out." in done.output
    assert Domain.load(folder / "g.json") == Domain.load(d)
    assert run("domain", "check", d, other, *GERMAN).exit_code == 0
    fit(folder, other, *GERMAN)
    model = folder / "m.mrf"
    done = run("predict", model, other, "--keep", "patient_id,age", *GERMAN)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[1].startswith('p0,"20,50",')
    plain = run("predict", model, folder / "records.csv").stdout.splitlines()
    assert [line.rpartition(",")[2] for line in done.stdout.splitlines()[1:]] == plain[1:]
    done = run("predict", model, other, "--keep", "größe", *GERMAN)
    assert "'größe' more than once" in " ".join(done.output.split())
    assert run("evaluate", model, other, "--epsilon", 1, *GERMAN).exit_code == 0


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "check"])
def test_what_was_not_told_of_a_file_is_refused_with_the_option(folder, command):
    fit(folder, folder / "records.csv")
    calls = {
        "fit": ("fit", "{}", "--domain", folder / "d.json", "--output", folder / "n.mrf"),
        "predict": ("predict", folder / "m.mrf", "{}"),
        "evaluate": ("evaluate", folder / "m.mrf", "{}", "--epsilon", "1"),
        "check": ("domain", "check", folder / "d.json", "{}"),
    }
    other = german(folder / "german.csv")
    for given, words in (
        ((), "--encoding 'latin-1'"),
        (("--encoding", "latin-1"), "--separator ';'"),
        (("--encoding", "latin-1", "--separator", ";"), "--decimal ','"),
        (("--encoding", "klingon"), "--encoding 'klingon'"),
    ):
        asked = [other if one == "{}" else one for one in calls[command]]
        done = run(*asked, *given)
        assert done.exit_code == 1
        assert words in " ".join(done.output.split()), (given, done.output)
    assert not (folder / "n.mrf").exists()
