"""Numbers that no option can mean are refused by name; words of strangers are shown as words."""

import io
import json
import sys

import click
import pytest
from command_line import PROGRAM, commands, run, told
from matplotlib.figure import Figure
from rich.console import Console

from mrf_matrix import Attribute, Domain, PrivacyLedger, PureDP, plan, save_model, tune
from mrf_matrix.estimators import PosteriorForestClassifier
from mrf_matrix.plotting import BudgetDisplay, StrategyErrorDisplay, StrengthDisplay
from strategies import select
from strategies.operators import RowKronecker

# Absurd numbers -----------------------------------------------------------------------------------


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


# Strangers' words ---------------------------------------------------------------------------------


WORDS = ["[none]", "smoker [current]", "[link=https://a.example]here[/link]", "[/]", ":smile:"]
DOMAIN = Domain(
    [
        Attribute("[bold]status", categories=WORDS),
        Attribute("größe €", categories=["ü [red]", "𝄞"]),
    ],
    target=Attribute("[/]", categories=["no", "[blink]yes"]),
)


def joined(text):
    return "".join(text.split())


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "[link=x]"
    place.mkdir()
    DOMAIN.save(place / "[red]d.json")
    rows = [
        f'"{a}","{b}","{c}"' for a in WORDS for b in ("ü [red]", "𝄞") for c in ("no", "[blink]yes")
    ]
    lines = [f'"{name}"' for name in ("[bold]status", "größe €", "[/]")]
    (place / "d.csv").write_text("\n".join([",".join(lines), *rows]) + "\n", encoding="utf-8")
    return place


def test_categories_names_and_files_are_shown_as_they_are_written(folder):
    shown = run("domain", "show", folder / "[red]d.json", env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    for word in ("[bold]status", "[red]d", *WORDS):
        assert joined(word) in joined(shown.output)
    checked = run("domain", "check", folder / "[red]d.json", folder / "d.csv")
    assert checked.exit_code == 0, checked.output
    assert str(folder / "[red]d.json") in checked.output
    wrong = folder / "wrong.json"
    wrong.write_text('{"attributes": [{"name": "[/]", "size": 0}, {"name": ":bomb:", "size": 0}]}')
    refused = run("domain", "check", wrong)
    assert refused.exit_code == 1
    assert "'[/]': size=0" in refused.output
    assert ":bomb:" in refused.output


def test_titles_and_notes_take_no_markup(folder):
    files = (folder / "d.csv", "--domain", folder / "[red]d.json")
    parties = ("--by", "[bold]status", "--kind", "tables", "--epsilon", 5)
    done = run("federate", "simulate", *files, *parties, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "5 parties by [bold]status" in done.output
    planned = run("plan", folder / "[red]d.json", "--kind", "tables", "--epsilon", 1,
                  "--output", folder / "out [i]", "--no-pictures")  # fmt: skip
    assert planned.exit_code == 0, planned.output
    assert "[red]d" in planned.output
    assert joined(str(folder / "out [i]")) in joined(planned.output)


def test_no_word_reaches_a_terminal_as_a_command(folder, monkeypatch):
    """On a terminal rich colours, and would follow links; words stay words."""
    screen = io.StringIO()
    monkeypatch.setattr(
        "mrf_matrix.cli.screen.Screen",
        lambda **options: Console(**options, file=screen, force_terminal=True, width=200),
    )
    assert run("domain", "show", folder / "[red]d.json").exit_code == 0
    assert "\x1b[" in screen.getvalue()  # its own commands are there
    assert "\x1b]8" not in screen.getvalue()
    assert "[link=https://a.example]here[/link]" in screen.getvalue()


def test_displays_are_text_on_anybodys_console():
    ledger = PrivacyLedger(epsilon=2)
    ledger.charge(PureDP(1), "[/] :smile: [red]fit", "add_remove")
    fitted = PosteriorForestClassifier(DOMAIN, epsilon=1).fit(
        [["[none]", "𝄞"], ["[/]", "ü [red]"]] * 9, ["no", "[blink]yes"] * 9
    )
    for shown in (ledger, fitted.privacy_report_, fitted.report_):
        screen = io.StringIO()
        Console(file=screen, width=300).print(shown)
        assert screen.getvalue()
    Console(file=(screen := io.StringIO()), width=300).print(ledger)
    assert "[/] :smile: [red]fit" in screen.getvalue()


def test_pictures_draw_dollars_and_underscores():
    ledger = PrivacyLedger(epsilon=2)
    ledger.charge(PureDP(1), "$x^{$ and _y", "add_remove")
    for draw in (
        lambda ax: BudgetDisplay.from_ledger(ledger, ax=ax),
        lambda ax: StrengthDisplay({"$a_{$": 1.0, ("_b", "$c^{$"): 0.5}).plot(ax),
        lambda ax: StrategyErrorDisplay({"$\\frac{$": 2.0}, 1.0, "l1", "$_{$").plot(ax),
    ):
        picture = Figure()
        draw(picture.add_subplot())
        picture.savefig(io.BytesIO())  # mathematics that does not parse would fail here


ENCODINGS = ("ascii", "latin-1", "cp1252", "utf-8")


class Narrow:
    """Standard output and error of another encoding than UTF-8, as a pipe has them."""

    def __init__(self, monkeypatch, encoding):
        self.encoding = encoding
        for name in ("stdout", "stderr"):
            stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
            setattr(self, name, stream)
            monkeypatch.setattr(sys, name, stream)

    def run(self, *arguments):
        code = PROGRAM(list(map(str, arguments)), standalone_mode=False)
        self.stdout.flush()
        said = self.stdout.buffer.getvalue().decode(self.encoding)
        self.stdout.buffer.seek(0)
        self.stdout.buffer.truncate()
        return code, said


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_command_prints_in_every_encoding(folder, monkeypatch, encoding):
    domain, data, model = folder / "[red]d.json", folder / "d.csv", folder / "m.mrf"
    records = [["[none]", "𝄞"], ["[/]", "ü [red]"]] * 9
    fitted = PosteriorForestClassifier(DOMAIN, epsilon=5).fit(records, ["no", "[blink]yes"] * 9)
    save_model(fitted, model)
    narrow = Narrow(monkeypatch, encoding)
    plan = (
        "plan",
        domain,
        "--kind",
        "tables",
        "--epsilon",
        1,
        "--no-pictures",
        "--output",
        folder,
    )
    for words, part in (
        (("domain", "show", domain), "ü"),
        (("domain", "show", domain, "--json"), "𝄞"),
        (("report", model), "ε"),
        (plan, "×"),
        (("predict", model, data), "[blink]yes"),
        (("datasets",), "monks_1"),
        (("evaluate", model, data, "--epsilon", 50), "AUC"),
    ):
        code, said = narrow.run(*words)
        assert not code, words
        try:
            part.encode(encoding)
        except UnicodeEncodeError:
            part = json.dumps(part)[1:-1]
        assert part in said, words
        if "--json" in words:
            assert Domain.from_dict(json.loads(said)) == DOMAIN
