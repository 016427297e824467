"""No text of a file that acts on a terminal gets in, and none that is printed gets out raw."""

import io
import json
import zipfile

import pytest
from command_line import run
from damage import change
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mrf_matrix import (
    Attribute,
    Domain,
    MatrixForestClassifier,
    PrivacyLedger,
    PureDP,
    load_model,
    load_release,
    save_model,
    save_release,
)
from mrf_matrix.base import is_plain_line
from mrf_matrix.cli import screen
from mrf_matrix.estimators import PosteriorForestClassifier

DOMAIN = Domain(
    [Attribute("a", categories=["x", "y", "z"]), Attribute("b", edges=[0, 1, 2])],
    target=Attribute("c", categories=["no", "yes"]),
)
X = {"a": ["x", "y", "z", "x"], "b": [0.5, 1.5, 0.5, 1.5]}
Y = ["no", "yes", "yes", "no"]
ACTS = ["\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "\u202e", "\x7f", "\n", "\x00"]
HOSTILE = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def save_of_matrix(path):
    model = MatrixForestClassifier(DOMAIN, n_trees=2, max_depth=1, strategy="identity")
    save_model(model.fit(X, Y), path)


def save_of_posterior(path):
    save_model(PosteriorForestClassifier(DOMAIN, n_records=10).fit(X, Y), path)


def save_of_release(path):
    release = PosteriorForestClassifier(DOMAIN, n_records=10).fit(X, Y).release_
    save_release(release, path, DOMAIN)


def save_of_ledger(path):
    ledger = PrivacyLedger.open(path, epsilon=1)
    ledger.charge(PureDP(0.5), "leaf counts", neighboring="add_remove")


KINDS = {
    "matrix model": (save_of_matrix, load_model, "model.json"),
    "posterior model": (save_of_posterior, load_model, "model.json"),
    "release": (save_of_release, load_release, "release.json"),
    "ledger": (save_of_ledger, PrivacyLedger.open, None),
    "domain": (DOMAIN.save, Domain.load, None),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request, tmp_path_factory):
    """Return the JSON of an honest file, and what reads it with other JSON."""
    save, load, member = KINDS[request.param]
    path = tmp_path_factory.mktemp("acting") / "file"
    save(path)
    content = path.read_bytes()
    if member is None:
        data, others = json.loads(content), None
    else:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            others = {name: file.read(name) for name in file.namelist()}
        data = json.loads(others.pop(member))

    def read(changed):
        text = json.dumps(changed)
        if others is None:
            path.write_text(text)
        else:
            with zipfile.ZipFile(path, "w") as file:
                for name, part in {member: text, **others}.items():
                    file.writestr(name, part)
        return load(path)

    return data, read


def refusal(read, record):
    """Return what a reader says against a record; None if it takes it."""
    try:
        read(record)
    except ValueError as error:
        return str(error)
    return None


def texts(data, path=()):
    """Yield the path and value of every text of a JSON document."""
    if isinstance(data, str):
        yield path, data
    elif isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from texts(value, (*path, key))


def test_every_text_of_a_file_is_checked(kind):
    data, read = kind
    assert refusal(read, data) is None  # the control
    for number, (path, text) in enumerate(texts(data)):
        act = ACTS[number % len(ACTS)]
        said = refusal(read, change(data, path, text[:1] + act + text[1:]))
        assert said is not None, path
        assert is_plain_line(said), path


@HOSTILE
@given(data=st.data())
def test_mutated_texts_are_refused_or_harmless(kind, data):
    record, read = kind
    path, text = data.draw(st.sampled_from(list(texts(record))))
    place = data.draw(st.integers(0, len(text)))
    odd = data.draw(st.text(st.characters(), min_size=1, max_size=3))
    said = refusal(read, change(record, path, text[:place] + odd + text[place:]))
    assert is_plain_line(odd if said is None else said)


def test_a_key_that_acts_is_refused_and_named_harmless(kind):
    data, read = kind
    act = "format" if "charges" in data else "x\x1b[2J"  # a ledger takes keys it does not know
    said = refusal(read, {**data, act: "\x1b[2J"})
    assert said is not None
    assert is_plain_line(said)


def test_the_console_escapes_whatever_prints_it(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    table = screen.table("t\x1b[2J", "c\x9b2J")
    table.add_row("r\x1b]0;owned\x07")
    screen.console().print(table, "plain \x1b[2J", "[bold]styled[/bold]")
    shown = capsys.readouterr().out
    assert "owned" in shown
    assert not any(act in shown for act in ("\x1b[2J", "\x9b", "\x1b]0", "\x07"))
    assert "\x1b[1m" in shown  # rich's own styles stay


@pytest.mark.parametrize("command", ["predict", "ledger", "fit"])
def test_errors_of_the_command_line_are_escaped(tmp_path, command):
    name = tmp_path / "evil\x1b]0;owned\x07"
    name.write_bytes(b"no file of ours")
    arguments = {
        "predict": [name, "monks_1"],
        "ledger": [name],
        "fit": ["monks_1", "--ledger", name, "--output", tmp_path / "m.mrf"],
    }[command]
    done = run(command, *map(str, arguments))
    assert done.exit_code == 1
    assert "owned" in done.output
    assert "\x1b" not in done.output
