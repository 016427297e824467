"""A saboteur: whatever call of ours fails after a charge, nothing that was drawn is lost.

Every function of ours that is called after the ledger was charged is made to fail, once. Whatever
noise had been drawn by then must be found in the error or in the object, and after a command in a
file; and whoever paid must be told.
"""

import json
import os
import shutil
import signal
import sys
from contextlib import suppress
from inspect import CO_GENERATOR
from pathlib import Path

import numpy as np
import pytest
from command_line import run

import mrf_matrix
from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    MultinomialForestClassifier,
    PrivacyLedger,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    SubsampleAggregateClassifier,
    load_model,
    load_release,
)
from mrf_matrix.base import work
from mrf_matrix.base.work import Choice
from mrf_matrix.cli import paid_release
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    MultinomialMatrixForestClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.ledger.file import FileStore, MemoryStore
from mrf_matrix.mechanisms.noise import SampledLaw
from mrf_matrix.study import evaluate

OURS = str(Path(mrf_matrix.__file__).parent) + os.sep
CHARGES = {MemoryStore._put.__code__, FileStore._put.__code__}
DOMAIN = Domain.from_sizes([2, 3, 2], n_classes=2)
RNG = np.random.default_rng(0)
X = np.stack([RNG.integers(size, size=80) for size in DOMAIN.sizes], axis=1)
Y = RNG.integers(2, size=80)
FEW = {"n_trees": 2, "max_depth": 1, "strategy": "identity"}


class SabotageError(Exception):
    """What fails once."""


class Sabotage:
    """Counts calls of functions of ours after the charge, and makes one of them fail."""

    def __init__(self, fails_at=None, error=SabotageError):
        self.fails_at, self.error = fails_at, error
        self.calls, self.is_charged, self.where = 0, False, None

    def __enter__(self):
        self.before, self.handler = sys.getprofile(), signal.getsignal(signal.SIGINT)
        sys.setprofile(self._called)
        return self

    def __exit__(self, *failed):
        sys.setprofile(self.before)
        signal.signal(signal.SIGINT, self.handler)  # what ends the holding of signals fails too

    def _called(self, frame, event, argument):
        code = frame.f_code
        if event == "return" and code in CHARGES:
            self.is_charged = True
        if event != "call" or not self.is_charged or not code.co_filename.startswith(OURS):
            return
        if code.co_flags & CO_GENERATOR:  # one that fails as it is resumed may end Python 3.11
            return
        self.calls += 1
        if self.calls == self.fails_at:
            self.where = f"{code.co_filename.removeprefix(OURS)}:{code.co_name}"
            sys.setprofile(self.before)
            raise self.error("sabotage")


@pytest.fixture
def noise(monkeypatch):
    """Return the list of all noisy answers that the sampler gives out."""
    drawn, exact = [], SampledLaw.exact

    def spied(self, answers):
        drawn.append(exact(self, answers))
        return drawn[-1]

    monkeypatch.setattr(SampledLaw, "exact", spied)
    return drawn


def held(value, depth=4):
    """Give all releases that a value holds."""
    if isinstance(value, Release):
        yield value.answers
    elif isinstance(value, Choice):
        yield np.asarray(value.chosen, dtype=object)
    elif isinstance(value, dict):
        for one in value.values():
            yield from held(one, depth)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from held(one, depth)
    elif depth and hasattr(value, "__dict__") and not isinstance(value, type):
        yield from held(vars(value), depth - 1)


def lost(drawn, places):
    """Return how many draws are in none of the places."""
    known = [np.asarray(one) for one in held(places)]
    return sum(all(not np.array_equal(one, other) for other in known) for one in drawn)


# Estimators --------------------------------------------------------------------------------------


def ours(kind, **settings):
    def run(ledger):
        model = kind(DOMAIN, ledger=ledger, **{"epsilon": 1, **settings})
        return model, lambda: model.fit(X, Y)

    return run


def batch(kind, **settings):
    def run(ledger):
        model = kind(DOMAIN, epsilon=1, ledger=ledger, random_state=0, **FEW, **settings)
        model.fit(X, Y)
        return model, lambda: model.predict(X[:5])

    return run


def evaluation(ledger):
    model = PrivateNaiveBayesClassifier(DOMAIN, epsilon=1).fit(X, Y)
    return None, lambda: evaluate(model, X, Y, epsilon=1, ledger=ledger)


QUICK = {
    "matrix": ours(MatrixForestClassifier, **FEW),
    "batch": batch(BatchPredictionClassifier),
    "auto": ours(PrivateForestClassifier, n_records=80),
}
OTHERS = {
    "subsample": batch(SubsampleAggregateClassifier),
    "naive Bayes": ours(PrivateNaiveBayesClassifier),
    "tables": ours(PosteriorForestClassifier),
    "additive": ours(ResidualForestClassifier, n_records=80),
    "labels": ours(LabelTreeClassifier, n_records=80),
    "pool": ours(PooledForestClassifier, n_records=80),
    "two stages": ours(MultinomialMatrixForestClassifier, **FEW),
    "multinomial": ours(MultinomialForestClassifier, n_trees=2, max_depth=1),
    "evaluate": evaluation,
}


def sabotaged(make, noise, fails_at=None, error=SabotageError):
    """Return what is wrong after one call has failed, and how many there were."""
    ledger = PrivacyLedger(epsilon=9)
    model, call = make(ledger)
    noise.clear()
    caught = None
    with Sabotage(fails_at, error) as saboteur:
        try:
            call()
        except BaseException as raised:  # the saboteur's, whatever it is
            caught = raised
    wrong = None
    if caught is not None and ledger.charges:
        missing = lost(noise, [getattr(caught, "releases", ()), model])
        if missing:
            wrong = f"{missing} of {len(noise)} draws are lost"
        elif not any("is spent" in note for note in getattr(caught, "__notes__", ())):
            wrong = "nothing says what was spent"
    elif caught is not None and noise:
        wrong = "something was drawn that nobody paid for"
    return saboteur, wrong


def found_wrong(make, noise, errors, most=None):
    """Return every point that loses something; `most`: points that are tried."""
    count = sabotaged(make, noise)[0].calls
    assert count > 20, "the saboteur sees what it should"
    points = range(1, count + 1)
    if most is not None and count > most:
        points = sorted({1 + (count - 1) * i // (most - 1) for i in range(most)})
    tried = [sabotaged(make, noise, at, error) for at in points for error in errors]
    return sorted({f"{one.where}: {wrong}" for one, wrong in tried if wrong})


@pytest.mark.parametrize("kind", QUICK)
def test_nothing_drawn_is_lost(kind, noise):
    assert not found_wrong(QUICK[kind], noise, [SabotageError, KeyboardInterrupt], most=12)


@pytest.mark.long
@pytest.mark.parametrize("kind", QUICK | OTHERS)
def test_nothing_drawn_is_lost_at_any_point(kind, noise):
    assert not found_wrong((QUICK | OTHERS)[kind], noise, [SabotageError, KeyboardInterrupt], 400)


@pytest.mark.parametrize("kind", ["matrix", "batch"])
def test_a_build_that_keeps_nothing_is_caught(kind, noise, monkeypatch):
    monkeypatch.setattr(work.DrawRecord, "explain", lambda self, error: None)
    assert found_wrong(QUICK[kind], noise, [SabotageError], most=6)


# Commands ----------------------------------------------------------------------------------------

TREES = ("--kind", "matrix", "--n-trees", "2", "--max-depth", "1", "--strategy", "identity")
CHARGED = ("--ledger", "ledger.json")
COMMANDS = {
    "fit": ("fit", "data.csv", "--domain", "domain.json", *TREES, *CHARGED, "--output", "made.mrf"),
    "fit of choices": (
        "fit", "data.csv", "--domain", "domain.json", "--kind", "additive", "--n-records", "80",
        *CHARGED, "--output", "made.mrf",
    ),
    "evaluate": (
        "evaluate", "model.mrf", "data.csv", "--epsilon", "1", *CHARGED, "--output", "made.json",
    ),
    "evaluate to print": (
        "evaluate", "model.mrf", "data.csv", "--epsilon", "1", *CHARGED, "--json",
    ),
}  # fmt: skip
QUICK_COMMANDS = ("fit", "evaluate", "evaluate to print")


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    """Return a folder with what commands read."""
    folder = tmp_path_factory.mktemp("stock")
    DOMAIN.save(folder / "domain.json")
    rows = [",".join([*DOMAIN.names, DOMAIN.target.name])]
    rows += [",".join(map(str, [*record, label])) for record, label in zip(X, Y, strict=True)]
    (folder / "data.csv").write_text("\n".join(rows) + "\n")
    MatrixForestClassifier(DOMAIN, epsilon=1, **FEW).fit(X, Y).save(folder / "model.mrf")
    PrivacyLedger.open(folder / "ledger.json", epsilon=9)
    return folder


@pytest.fixture
def desk(stock, tmp_path, monkeypatch):
    """Return the folder that commands run in, and keep everything in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    return tmp_path


def lost_of_command(drawn, files, printed):
    """Return how many draws are in none of the files, and not printed; a model is made of all."""
    texts, known = [printed], []
    for file in files:
        if file.suffix == ".mrf" and file.stat().st_size:
            assert len(load_model(file).predict(X)) == len(X)
            return 0
        if file.suffix == ".release":
            known.append(load_release(file).answers)
        elif file.suffix == ".json":
            texts.append(file.read_text())
    for text in texts:
        with suppress(ValueError):
            if "noisy_counts" in (found := json.loads(text)):
                known.append(np.asarray(found["noisy_counts"]))
    return sum(all(not np.array_equal(one, other) for other in known) for one in drawn)


def sabotaged_command(arguments, stock, desk, noise, fails_at=None, error=SabotageError):
    """Return what is wrong after one call of a command has failed, and how many there were."""
    for file in desk.iterdir():
        file.unlink()
    shutil.copytree(stock, desk, dirs_exist_ok=True)
    noise.clear()
    with Sabotage(fails_at, error) as saboteur:
        done = run(*arguments)
    charges = PrivacyLedger.open(desk / "ledger.json").charges
    made = [file for file in desk.iterdir() if not (stock / file.name).exists()]
    missing = lost_of_command(noise, made, done.stdout)
    is_printed = "noisy_counts" in done.stdout and not missing
    wrong = None
    if noise and not charges:
        wrong = "something was drawn that nobody paid for"
    elif missing:
        wrong = f"{missing} of {len(noise)} draws are lost"
    elif charges and "is spent" not in done.output and not is_printed:
        wrong = "nothing says what was spent"
    elif noise and not any(file.name in done.output for file in made) and not is_printed:
        wrong = "nothing says where it is"
    return saboteur, wrong


def found_wrong_of(command, stock, desk, noise, errors, most=None):
    """Return every point of a command that loses something; `most`: points that are tried."""
    arguments = COMMANDS[command]
    first, wrong = sabotaged_command(arguments, stock, desk, noise)
    assert noise
    assert wrong is None
    points = range(1, first.calls + 1)
    assert len(points) > 20, "the saboteur sees what it should"
    if most is not None and len(points) > most:
        points = sorted({1 + (first.calls - 1) * i // (most - 1) for i in range(most)})
    tried = [
        sabotaged_command(arguments, stock, desk, noise, at, errors[number % len(errors)])
        for number, at in enumerate(points)
    ]
    return sorted({f"{one.where}: {wrong}" for one, wrong in tried if wrong})


@pytest.mark.parametrize("command", QUICK_COMMANDS)
def test_no_command_loses_what_it_drew(command, stock, desk, noise):
    errors = [SabotageError, KeyboardInterrupt]
    assert not found_wrong_of(command, stock, desk, noise, errors, most=8)


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_loses_what_it_drew_at_any_point(command, stock, desk, noise):
    errors = [SabotageError, KeyboardInterrupt]
    assert not found_wrong_of(command, stock, desk, noise, errors, most=400)


@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_a_command_that_keeps_nothing_is_caught(command, stock, desk, noise, monkeypatch):
    monkeypatch.setattr(paid_release.Rescue, "write_elsewhere", lambda self, write, like: None)
    assert found_wrong_of(command, stock, desk, noise, [SabotageError], most=6)
