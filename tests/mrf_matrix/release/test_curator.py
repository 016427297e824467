"""Curators take announced steps, in their order, once, for exactly their shares."""

import pickle
from dataclasses import dataclass
from itertools import product
from threading import Barrier, Thread

import numpy as np
import pytest
from curator_plans import (
    DEFERRED,
    HALF,
    TWO,
    Largest,
    Plan,
    Records,
    cells,
    choosing,
    live,
    measuring,
)

from mrf_matrix.base.fields import FieldError
from mrf_matrix.files.model_file import Replay
from mrf_matrix.mechanisms import ZCDP, PureDP, count_cells
from mrf_matrix.mechanisms.budget import total_budget
from mrf_matrix.release.curator import PartyReleases, PlanError
from mrf_matrix.release.plan import KeptVotes


def test_the_whole_is_charged_once_before_the_first_noise_and_ends_with_the_last():
    curator, paid = live(TWO)
    with curator:
        assert paid == []
        curator.measure(TWO.steps[0], cells())
        curator.measure(TWO.steps[1], cells(1))
        assert paid == ["charged"]
        curator.check_finished()
    assert paid == ["charged", "ended"]
    assert [one.answers.shape for one in curator.transcript.releases] == [(3, 2), (2, 2)]


class FailsAt(Records):
    """Records whose table of one attribute cannot be counted."""

    def cells(self, features):
        if features == (1,):
            raise MemoryError
        return super().cells(features)


def test_counts_of_later_steps_fail_before_the_charge_too():
    later = [(TWO.steps[1], cells(1))]
    curator, paid = live(TWO, FailsAt())
    with pytest.raises(MemoryError), curator:
        curator.measure(TWO.steps[0], cells(), later)
    assert (paid, curator.is_paid) == ([], False)
    control, paid = live(TWO, FailsAt())  # the control: nothing was said of the later step
    with pytest.raises(MemoryError), control:
        [control.measure(*one) for one in [(TWO.steps[0], cells()), *later]]
    assert paid == ["charged", "ended"]
    records = Records()
    once, _ = live(TWO, records)
    with once:
        once.measure(TWO.steps[0], cells(), later)
        once.measure(*later[0])
        once.check_finished()
    assert records.opened == 2


def test_counts_that_fail_spend_nothing():
    curator, paid = live(TWO, Records(fails=True))
    with pytest.raises(MemoryError), curator:
        curator.measure(TWO.steps[0], cells())
    assert paid == []
    assert not curator.is_paid
    assert curator.transcript.outcomes == ()


REFUSED = {
    "the second step first": lambda one: one.measure(TWO.steps[1], cells(1)),
    "a step that equals none": lambda one: one.measure(measuring(PureDP(1)), cells()),
    "another kind of question": lambda one: one.measure(TWO.steps[0], Largest()),
    "hard votes as counts": lambda one: one.measure(TWO.steps[0], KeptVotes(0, (3,), 2)),
    "a measurement as a choice": lambda one: one.choose(TWO.steps[0], cells()),
    "a step as a part": lambda one: one.part(TWO.steps[0]),
    "a plan that is no step": lambda one: one.part(TWO),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_step_that_is_not_the_next_one_is_refused_before_data_are_looked_at(what):
    records = Records()
    curator, paid = live(TWO, records)
    with pytest.raises((PlanError, AttributeError)):
        REFUSED[what](curator)
    assert (paid, records.opened) == ([], 0)


def test_no_step_is_taken_twice_and_none_is_left_out():
    curator, _ = live(TWO)
    curator.measure(TWO.steps[0], cells())
    with pytest.raises(PlanError, match="not the next"):
        curator.measure(TWO.steps[0], cells())
    with pytest.raises(PlanError, match="1 announced steps"):
        curator.check_finished()


def test_threads_take_a_step_once():
    curator, paid = live(TWO)
    start, refused = Barrier(4), []

    def take():
        start.wait()
        try:
            curator.measure(TWO.steps[0], cells())
        except PlanError:
            refused.append(1)

    threads = [Thread(target=take) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (len(refused), paid, len(curator.transcript.outcomes)) == (3, ["charged"], 1)


@pytest.mark.parametrize(
    "steps",
    [
        (measuring(),),
        (measuring(), measuring(PureDP(1))),
        (measuring(), measuring(attribute=1, neighboring="replace_one")),
    ],
)
def test_shares_that_do_not_add_up_make_no_curator(steps):
    with pytest.raises(PlanError, match="exactly"):
        live(Plan(steps))


def test_a_share_of_another_kind_makes_no_curator():
    with pytest.raises((PlanError, TypeError, ValueError)):
        live(Plan((measuring(), measuring(ZCDP(1), attribute=1))))


# Deferred shares ---------------------------------------------------------------------------------


def unread(data):
    raise AssertionError("nothing was read")


def test_outcomes_pick_a_plan_of_exactly_the_share():
    curator, paid = live(DEFERRED)
    with curator:
        (place,) = curator.choose(DEFERRED.steps[0], Largest())
        follows = Plan((measuring(attribute=place),), HALF)
        part = curator.part(DEFERRED.steps[1], lambda: follows, unread)
        with pytest.raises(PlanError):
            curator.check_finished()  # the part's step is left
        part.measure(follows.steps[0], cells(place))
        curator.check_finished()
    assert paid == ["charged", "ended"]
    assert [type(one).__name__ for one in curator.transcript.outcomes] == [
        "tuple", "AnnouncedPlan", "Release",
    ]  # fmt: skip


def test_no_step_follows_a_part_that_has_steps_left():
    inner = Plan((measuring(),), HALF)
    whole = Plan((inner, measuring(attribute=1)))
    curator, _ = live(whole)
    with curator:
        part = curator.part(inner)
        with pytest.raises(PlanError, match="1 announced steps were not taken"):
            curator.measure(whole.steps[1], cells(1))
        part.measure(inner.steps[0], cells())
        curator.measure(whole.steps[1], cells(1))
        curator.check_finished()


@pytest.mark.parametrize(
    "follows",
    [
        Plan((measuring(PureDP(1)),)),
        Plan((measuring(HALF * (1 / 2)),), HALF * (1 / 2)),
        Plan((measuring(neighboring="replace_one"),), HALF, "replace_one"),
    ],
)
def test_a_plan_that_spends_other_than_its_share_is_refused(follows):
    curator, _ = live(DEFERRED)
    curator.choose(DEFERRED.steps[0], Largest())
    with pytest.raises(PlanError, match="under add_remove"):
        curator.part(DEFERRED.steps[1], lambda: follows, unread)


# What failed goes on -----------------------------------------------------------------------------


def test_a_failed_fit_goes_on_with_what_was_told_and_charges_nothing():
    first, paid = live(TWO)
    with first:
        told = first.measure(TWO.steps[0], cells())
    assert first.can_go_on
    again, more = live(TWO, before=first.transcript)
    with again:
        assert again.measure(TWO.steps[0], cells()) is told
        again.measure(TWO.steps[1], cells(1))
        again.check_finished()
    assert paid == ["charged", "ended"]
    assert more == ["charged", "ended"]  # whoever goes on gives a context that charges nothing
    assert total_budget([one.budget for one in again.transcript.releases]) == PureDP(1)


def test_a_draw_that_was_lost_is_spent(monkeypatch):
    curator, _ = live(DEFERRED)
    monkeypatch.setattr(Largest, "draw", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError), curator:
        curator.choose(DEFERRED.steps[0], Largest())
    assert curator.is_paid
    assert not curator.can_go_on


def test_an_announcement_that_fails_is_no_draw_and_is_made_when_the_fit_goes_on():
    first, _ = live(DEFERRED)
    (place,) = first.choose(DEFERRED.steps[0], Largest())
    with pytest.raises(ZeroDivisionError), first:
        first.part(DEFERRED.steps[1], lambda: 1 / 0, unread)
    assert first.can_go_on
    again, _ = live(DEFERRED, before=first.transcript)
    with again:
        assert again.choose(DEFERRED.steps[0], Largest()) == (place,)
        follows = Plan((measuring(attribute=place),), HALF)
        again.part(DEFERRED.steps[1], lambda: follows, unread).measure(
            follows.steps[0], cells(place)
        )
        again.check_finished()


# Records that are dealt ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Dealing(Plan):
    """Two steps, each of which spends the whole on the records that it got."""

    partition_share: float = 0.25


WHOLE = PureDP(1)
DEALT = Dealing((measuring(WHOLE), measuring(WHOLE)))


class Deck:
    """Records by number, and which of them each step was shown; `coins`: how they fall."""

    def __init__(self, coins, shown=None):
        self.coins, self.shown = coins, [] if shown is None else shown
        self.mine = np.arange(len(coins))

    def deal(self, share, bits):
        assert share == DEALT.partition_share
        heads = np.array(self.coins)
        return [self.of(self.mine[heads]), self.of(self.mine[~heads])]

    def of(self, mine):
        part = Deck(self.coins, self.shown)
        part.mine = mine
        return part

    def cells(self, features):
        self.shown.append(set(self.mine.tolist()))
        return count_cells(self.mine[:, None] * 0, self.mine * 0, (3,), 2)


def shown(coins, steps=2):
    """Return whom each of some steps was shown by a curator whose coins fell like this."""
    deck = Deck(coins)
    curator, _ = live(DEALT, deck)
    for step in DEALT.steps[:steps]:
        curator.measure(step, cells())
    return deck.shown


def test_the_budget_of_dealt_records_is_that_of_the_dearer_step():
    curator, paid = live(DEALT, Deck([True, False]))
    with curator:
        for step in DEALT.steps:
            curator.measure(step, cells())
    assert paid == ["charged", "ended"]
    live(Dealing((measuring(HALF), measuring(WHOLE))), Deck([True]))
    for steps, budget in (
        ((measuring(HALF), measuring(HALF)), WHOLE),
        ((measuring(WHOLE), measuring(WHOLE)), WHOLE + WHOLE),
        ((measuring(WHOLE),) * 3, WHOLE),
    ):
        with pytest.raises(PlanError):
            live(Dealing(steps, budget), Deck([True]))


def losses(pairs):
    """Return the largest loss of a record of which each step learns at a rate of one.

    `pairs`: for each way in which coins fall, its probability and which steps see the record. A
    step that sees it says yes with odds of e against one, a step that does not with even odds of
    one against e: as randomised response does.
    """
    yes = (1 / (1 + np.e), np.e / (1 + np.e))

    def law(seen, answer):
        return yes[seen] if answer else 1 - yes[seen]

    without = {(a, b): law(False, a) * law(False, b) for a, b in product((0, 1), repeat=2)}
    with_it = dict.fromkeys(without, 0.0)
    for probability, (first, second) in pairs:
        for a, b in with_it:
            with_it[a, b] += probability * law(first, a) * law(second, b)
    return max(abs(np.log(with_it[one] / without[one])) for one in without)


def test_no_record_is_shown_to_both_steps_and_a_deal_anew_would():
    """Enumerated: all ways in which the coins of three records fall, and of the second deal."""
    share = DEALT.partition_share

    def chance(coins):
        return float(np.prod([share if one else 1 - share for one in coins]))

    falls = list(product((True, False), repeat=3))
    kept, anew = [], []
    for coins in falls:
        first, second = shown(coins)
        assert first | second == {0, 1, 2}
        assert not first & second
        kept.append((chance(coins), (0 in first, 0 in second)))
        for again in falls:  # the control: steps that are left are taken after another deal
            seen = shown(coins, steps=1)[0], shown(again)[1]
            anew.append((chance(coins) * chance(again), tuple(0 in one for one in seen)))
    assert losses(kept) <= 1 + 1e-12
    assert losses(anew) > 1.1


def test_a_fit_whose_records_were_dealt_does_not_go_on():
    first, _ = live(DEALT, Deck([True, False]))
    with first:
        first.measure(DEALT.steps[0], cells())
    assert first.is_paid
    assert not first.can_go_on
    with pytest.raises(PlanError, match="dealt anew"):
        live(DEALT, Deck([True, False]), before=first.transcript)
    same = Plan(DEALT.steps, WHOLE + WHOLE)  # the control: all records, whose shares add up
    first, _ = live(same)
    with first:
        first.measure(same.steps[0], cells())
    assert first.can_go_on
    live(same, before=first.transcript)


# Transcripts -------------------------------------------------------------------------------------


def to_record(curator):
    return curator.transcript.to_record(lambda plan: {"attribute": plan.steps[0].measured[-1]})


def told():
    curator, _ = live(DEFERRED)
    with curator:
        (place,) = curator.choose(DEFERRED.steps[0], Largest())
        follows = Plan((measuring(attribute=place),), HALF)
        part = curator.part(DEFERRED.steps[1], lambda: follows, unread)
        part.measure(follows.steps[0], cells(place))
    return to_record(curator)


def replayed(record):
    def read(data):
        return Plan((measuring(attribute=int(data["attribute"])),), HALF)

    curator = Replay(DEFERRED, record)
    (place,) = curator.choose(DEFERRED.steps[0], Largest())
    part = curator.part(DEFERRED.steps[1], lambda: 1 / 0, read)
    release = part.measure(part.plan.steps[0], cells(place))
    curator.check_finished()
    return release


def test_a_record_without_a_charge_in_its_provenance_is_refused():
    with pytest.raises((FieldError, ValueError), match="no charge"):
        replayed(told())


def test_parties_releases_must_be_of_the_plan():
    one = measuring(PureDP(1))
    curator, _ = live(Plan((one,)))
    release = curator.measure(one, cells())
    other = measuring(PureDP(1), attribute=1)
    given = PartyReleases(Plan((one,)), [release])
    assert given.measure(one, cells()) is release
    with pytest.raises(PlanError, match="something else"):
        PartyReleases(Plan((other,)), [release]).measure(other, cells(1))
    with pytest.raises(PlanError, match="tell none"):
        PartyReleases(Plan((choosing(PureDP(1)),)), [release]).choose(
            choosing(PureDP(1)), Largest()
        )


def test_a_curator_is_not_copied_and_shows_nothing():
    curator, _ = live(TWO)
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(curator)
    assert "private" in repr(curator)
    assert "50" not in repr(curator)
