"""Whatever is called in whatever order, nothing claims more than what was really drawn.

A walk is a list of public calls, drawn by a seed. One that refutes a claim is shortened. The calls
stand in `walk_calls`; who judges what comes of them, in `walk_accountant`.
"""

import warnings
from collections import Counter
from random import Random

import pytest
from walk_accountant import ClaimsMoreError, Watch
from walk_calls import CALLS, PLACES, World

from mrf_matrix import PrivacyLeakWarning, Provenance
from mrf_matrix.base import provenance as origins
from mrf_matrix.domain import domain as domains
from mrf_matrix.estimators import count_source
from mrf_matrix.federated import runner
from mrf_matrix.kinds import matrix as matrix_kind
from mrf_matrix.mechanisms import CellCounts, NoNoise, Release
from mrf_matrix.mechanisms.ledger import ledger as ledgers
from mrf_matrix.mechanisms.measurement import measure as measuring
from mrf_matrix.mechanisms.measurement import mechanism as calibration
from mrf_matrix.mechanisms.statement import Claim


def walk(seed, length=50):
    """Return calls by their names, with places in pools and choices."""
    random = Random(seed)

    def chosen(choices):
        return random.choice(PLACES if isinstance(choices, str) else choices)

    names = random.choices([*CALLS], k=length)
    return [(name, {k: chosen(one) for k, one in CALLS[name][1].items()}) for name in names]


class Walks:
    """Takes walks, and counts what came of which call."""

    def __init__(self, monkeypatch, tmp_path):
        self.watch, self.path, self.done = Watch(monkeypatch), tmp_path / "file", Counter()

    def refutation(self, calls):
        """Return what is claimed too much on a walk, or None."""
        try:
            world = World(self.watch, self.path)
            for one in calls:
                world.step(*one)
        except ClaimsMoreError as error:
            return str(error)
        self.done += world.done
        return None

    def shortest(self, calls):
        """Leave out whatever is not needed to refute a claim."""
        for number in range(len(calls) - 1, -1, -1):
            fewer = calls[:number] + calls[number + 1 :]
            calls = fewer if self.refutation(fewer) else calls
        return calls

    def take(self, seeds):
        """Take walks until one refutes a claim: then it is shortened, and shown."""
        for seed in seeds:
            if (told := self.refutation(walk(seed))) is not None:
                lines = [f"{name}({given})" for name, given in self.shortest(walk(seed))]
                raise ClaimsMoreError("\n".join([f"Seed {seed}: {told}", *lines]))


@pytest.fixture
def walks(monkeypatch, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        yield Walks(monkeypatch, tmp_path)


def test_no_walk_finds_a_claim_of_more_than_was_drawn(walks):
    walks.take(range(8))


@pytest.mark.long
def test_no_long_walk_does_and_every_call_is_made(walks):
    walks.take(range(1000, 2000))
    assert set(walks.done) == set(CALLS)


# Controls ----------------------------------------------------------------------------------------

MARGINAL, NOISE_FOR, MAKER = CellCounts.marginal, measuring.noise_for, measuring.release_maker
DUE, CHECKED, TO_DICT = ledgers.add_charges, matrix_kind.checked_forest, domains.domain_to_dict
CALM = property(lambda claim: None)
NAMED = property(lambda data: data.domain.provenance)


def forgetting(table, attributes):
    """Sum counts over attributes, and forget where they came from."""
    made = MARGINAL(table, attributes)
    return CellCounts(made.codes, made.counts, made.sizes)


def halved(*known):
    """Return noise of half the scale that is needed."""
    law = NOISE_FOR(*known)
    return law if isinstance(law, NoNoise) else type(law)(law.scale / 2)


def entered_as_exact(mechanism, noise, *known, **more):
    """Return what makes a release that says its noise was exact."""
    return MAKER(mechanism, "exact" if noise == "research" else noise, *known, **more)


CUTS = {
    "sums over attributes forget": (CellCounts, "marginal", forgetting),
    "a join drops the second": (Provenance, "__or__", lambda one, other: one),
    "a sum counts one charge": (origins, "_merge_accounts", lambda each: frozenset([*each][:1])),
    "a release takes nothing on": (Release, "resting_on", lambda release, *others: release),
    "counts are known by their domain": (count_source.CountedTables, "provenance", NAMED),
    "a model file forgets": (
        matrix_kind, "checked_forest", lambda *known: CHECKED(*known[:3], origins.FOREST)
    ),
    "a domain's file forgets": (domains, "domain_to_dict", lambda *all, is_read_off: TO_DICT(*all)),
    "a ledger drops what it rests on": (
        ledgers, "add_charges", lambda *known: DUE(*known[:3], origins.NOTHING)
    ),
    "parties forget their counts": (runner, "join", lambda each: origins.NOTHING),
    "a claim overlooks its doubt": (Claim, "doubt", CALM),
    "noise is halved": ((calibration, measuring), "noise_for", halved),
    "seeded noise is entered as exact": (measuring, "release_maker", entered_as_exact),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
def test_a_walk_finds_one_link_that_is_cut(cut, walks, monkeypatch):
    places, *link = CUTS[cut]
    for place in places if isinstance(places, tuple) else (places,):
        monkeypatch.setattr(place, *link)
    assert any(walks.refutation(walk(seed)) for seed in range(100))
