"""No text of a file that acts on a terminal gets in, and none that is printed gets out raw."""

import io
import json
import unicodedata
import zipfile

import pytest
from acting_texts import ACTING, PLAIN
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
from mrf_matrix.domain import DomainError
from mrf_matrix.estimators import PosteriorForestClassifier

DOMAIN = Domain(
    [Attribute("a", categories=["x", "y", "z"]), Attribute("b", edges=[0, 1, 2])],
    target=Attribute("c", categories=["no", "yes"]),
)
X = {"a": ["x", "y", "z", "x"], "b": [0.5, 1.5, 0.5, 1.5]}
Y = ["no", "yes", "yes", "no"]
ACTS = ["\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "\u202e", "\x7f", "\n", "\x00"]
HIDDEN = ("Cc", "Cs", "Zl", "Zp")
"""Categories of Unicode that act on a screen, or that no screen shows."""
HOSTILE = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def is_plain(text):
    """Whether a text acts on no terminal: neither controls, directions nor what is hidden in it."""
    joiners = {"\u200c", "\u200d"}  # which words and pictures are written with
    kinds = {one: unicodedata.category(one) for one in set(text) - joiners}
    return not any(kind in HIDDEN or kind == "Cf" for kind in kinds.values())


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
        assert is_plain(said), path


@HOSTILE
@given(data=st.data())
def test_mutated_texts_are_refused_or_harmless(kind, data):
    record, read = kind
    path, text = data.draw(st.sampled_from(list(texts(record))))
    place = data.draw(st.integers(0, len(text)))
    odd = data.draw(st.text(st.characters(), min_size=1, max_size=3))
    said = refusal(read, change(record, path, text[:place] + odd + text[place:]))
    assert is_plain(odd if said is None else said)


def test_a_key_that_acts_is_refused_and_named_harmless(kind):
    data, read = kind
    act = "format" if "charges" in data else "x\x1b[2J"  # a ledger takes keys it does not know
    said = refusal(read, {**data, act: "\x1b[2J"})
    assert said is not None
    assert is_plain(said)


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


# Which text acts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ACTING)
def test_no_attribute_has_a_name_or_category_that_acts(text):
    around = f"yes{text}no"
    with pytest.raises(DomainError, match="control characters") as refused:
        Attribute(around, size=2)
    assert is_plain(str(refused.value))
    with pytest.raises(DomainError, match="control characters") as refused:
        Attribute("a", categories=["ok", around])
    assert is_plain(str(refused.value))
    record = Domain.from_sizes([2], n_classes=2).to_dict()
    record["target"] = {"name": "c", "categories": [around, "no"]}
    with pytest.raises(DomainError, match=r"target: .*control characters"):
        Domain.from_dict(record)


@pytest.mark.parametrize("text", PLAIN)
def test_names_and_categories_of_any_language_are_taken(text):
    assert Attribute(text, categories=[text]).labels == (text,)
