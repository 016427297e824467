"""Words of strangers: no markup on any screen or picture, and printed in any encoding."""

import io
import json
import sys

import pytest
from command_line import PROGRAM, run
from matplotlib.figure import Figure
from rich.console import Console

from mrf_matrix import Attribute, Domain, PrivacyLedger, PureDP, save_model
from mrf_matrix.estimators import PosteriorForestClassifier
from mrf_matrix.plotting import BudgetDisplay, StrategyErrorDisplay, StrengthDisplay

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
    for words, told in (
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
            told.encode(encoding)
        except UnicodeEncodeError:
            told = json.dumps(told)[1:-1]
        assert told in said, words
        if "--json" in words:
            assert Domain.from_dict(json.loads(said)) == DOMAIN
