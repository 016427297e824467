"""What noise leaves of a plan: one verdict, from one rule, in the same words everywhere."""

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from command_line import run
from scipy.special import softmax

from mrf_matrix import (
    Domain,
    MatrixForestClassifier,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    PureDP,
    plan,
)
from mrf_matrix.base.work import progress_listener
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.mechanisms import DiscreteLaplace, calibrate
from mrf_matrix.planning.plans.signal_to_noise import (
    NOTE,
    NoiseError,
    Verdict,
    verdict_of,
    weigh_signals,
)
from mrf_matrix.release.curator import StrategyStep, flat_steps
from mrf_matrix.residual.step import CHOICES

DOMAIN = Domain.from_sizes([4, 4], n_classes=2)
DESIGN = {"n_trees": 4, "max_depth": 2, "strategy": "identity"}
TEN = Domain.from_sizes([2] * 10, n_classes=2)
OWN_PLANS = {
    "labels": LabelTreeClassifier,
    "pool": PooledForestClassifier,
    "auto": PrivateForestClassifier,
    "additive": ResidualForestClassifier,
}
MODES = ("matrix", "batch", "subsample", "tables", "naive_bayes")
ORDER = ("do not deploy", "noise decides many labels", "noise is the smaller part")


def planned(kind, domain=TEN, **given):
    """Return the plan of any kind, without data."""
    if kind in OWN_PLANS:
        return OWN_PLANS[kind](domain, random_state=0, **given).plan()
    trees = DESIGN if kind in MODES[:3] else {}
    return plan(domain, kind, random_state=0, **trees, **given)


def public(kind, n_records):
    """Return the number of records where plans follow from it."""
    return {} if kind in MODES[:3] or kind == "naive_bayes" else {"n_records": n_records}


@pytest.mark.parametrize(
    ("unit", "records", "noise", "words"),
    [
        ("leaf", 4, 70, "a typical leaf holds 4 records and noise of 70: do not deploy"),
        ("leaf", 40, 70, "noise decides many labels"),
        ("leaf", 400, 70, "noise is the smaller part"),
        ("query", 40, 70, "do not deploy"),
        ("query", 200, 70, "noise decides many labels"),
        ("leaf", None, 70, "a typical leaf has noise of 70; the public number of records"),
    ],
)
def test_words(unit, records, noise, words):
    found = Verdict(unit, noise, records)
    assert words in found.words == str(found)
    assert found.ok == ("do not deploy" not in words)


@pytest.mark.parametrize("kind", [*MODES, *OWN_PLANS])
def test_few_records_for_the_budget_are_refused_whatever_is_measured(kind):
    """Ten records at an epsilon of one, or a thousand at a hundredth, over ten attributes."""
    for n_records, epsilon in ((10, 1), (100, 0.1), (1000, 0.01)):
        found = verdict_of(planned(kind, epsilon=epsilon), n_records)
        assert found.refusal == found.words, (n_records, epsilon)
        assert "majority class may be right more often: do not deploy" in found.words
    assert verdict_of(planned(kind, epsilon=1000), 10**6).refusal is None


@pytest.mark.parametrize("kind", [*MODES, *OWN_PLANS])
def test_a_verdict_never_falls_as_budget_or_records_grow(kind):
    rank = [
        [
            ORDER.index(verdict_of(planned(kind, epsilon=e, **public(kind, n)), n).advice)
            for n in (60, 40_000)
        ]
        for e in (0.01, 0.3, 20)
    ]
    assert (np.diff(rank, axis=0) >= 0).all()
    assert (np.diff(rank, axis=1) >= 0).all()
    assert np.ptp(rank) > 0, "a verdict that never changes says nothing"


@pytest.mark.parametrize("kind", [*MODES, "additive"])
def test_every_kind_of_plan_has_a_verdict_that_follows_the_budget(kind):
    few, many = (planned(kind, DOMAIN, epsilon=e, n_records=100) for e in (1e-3, 1e3))
    assert not verdict_of(few).ok
    assert verdict_of(many).ok
    assert verdict_of(few).noise > verdict_of(many).noise


def test_figures_are_the_plans_own():
    made = plan(DOMAIN, epsilon=1, n_records=160, **DESIGN)
    found = made.verdict
    assert found.records == np.median(made.expected_records)
    assert found.noise == np.median(made.row_rms)
    assert str(found) == made.to_dict()["signal_to_noise"]
    untold = plan(DOMAIN, epsilon=1, **DESIGN)
    assert untold.verdict.records is None
    assert verdict_of(untold, 160) == found


X, Y = np.zeros((8, 2), int), np.arange(8) % 2
FITTED = {
    MatrixForestClassifier: DESIGN,
    PosteriorForestClassifier: {},
    LabelTreeClassifier: {},
    PooledForestClassifier: {},
    PrivateForestClassifier: {},
    PrivateNaiveBayesClassifier: {},
    ResidualForestClassifier: {},
}


@pytest.mark.parametrize("kind", FITTED)
def test_strict_fits_are_refused_before_they_spend(kind):
    told, design = [], FITTED[kind]
    with progress_listener(lambda step, done, total: told.append(step)):
        with weigh_signals(8, strict=True), pytest.raises(NoiseError, match="do not deploy"):
            kind(DOMAIN, epsilon=0.001, **design).fit(X, Y)
        assert not any(step.startswith("Drawing") for step in told)
        with weigh_signals(strict=True), pytest.raises(NoiseError, match="n_records"):
            kind(DOMAIN, epsilon=1, **design).fit(X, Y)
    with weigh_signals(8) as verdicts:
        kind(DOMAIN, epsilon=0.001, **design).fit(X, Y)
    assert [one.ok for one in verdicts] == [False], "the whole is weighed, once"


@pytest.mark.parametrize("kind", FITTED)
def test_plan_fit_and_report_say_the_same(kind):
    model = kind(DOMAIN, epsilon=1, n_records=8, **FITTED[kind])
    with weigh_signals() as verdicts:
        notes = model.fit(X, Y).privacy_report_.notes
    said = [note.removeprefix(NOTE) for note in notes if note.startswith(NOTE)]
    assert said == [str(verdict_of(model.plan_))] == [str(one) for one in verdicts]
    untold = kind(DOMAIN, epsilon=1, **FITTED[kind]).fit(X, Y).privacy_report_
    assert not any(note.startswith(NOTE) for note in untold.notes)


@pytest.mark.parametrize("kind", ["auto", "tables", "naive_bayes", "additive"])
def test_the_command_line_says_it_in_the_same_words(kind, tmp_path):
    file = tmp_path / "domain.json"
    TEN.save(file)
    given = ["plan", str(file), "--kind", kind, "--epsilon", "1", "--n-records", "10", "--json"]
    out = ["--output", str(tmp_path)]
    done = run(*given, *out, "--no-pictures")
    said = json.loads(done.stdout)["signal_to_noise"]
    assert "do not deploy" in said
    refused = run(*given, *out, "--no-pictures", "--strict")
    assert refused.exit_code == 1
    assert f"--strict: {said}." in refused.output


CHOOSERS = {
    "tables": (PosteriorForestClassifier, {"n_blocks": 10}),
    "additive": (ResidualForestClassifier, {}),
    "pool": (PooledForestClassifier, {"beside": "additive"}),
    "naive_bayes": (PrivateNaiveBayesClassifier, {}),
}


@pytest.mark.parametrize("claim", [{"epsilon": 1.0}, {"epsilon": None, "rho": 0.2}])
@pytest.mark.parametrize("kind", CHOOSERS)
def test_the_noise_is_that_of_the_tables_that_a_fit_asks(kind, claim):
    """Of those that were released, and not of a table an attribute, whatever is asked."""
    make, own = CHOOSERS[kind]
    codes = np.random.default_rng(0).integers(2, size=(900, 10))
    model = make(TEN, n_records=900, noise="research", **claim, **own).fit(codes, codes[:, 0])
    steps = [one for one in flat_steps(model.plan_) if one.kind not in CHOICES]
    pairs = zip(steps, model.releases_, strict=True)
    found = [
        np.sqrt(release.variance) / (float(release.scale) * step.units)
        for step, release in pairs
        if step.kind != "curvature"
    ]
    assert verdict_of(model.plan_).noise == pytest.approx(np.median(found))


def test_a_tree_that_is_labelled_by_choices_has_the_noise_of_a_choice():
    """The largest of scores with Gumbel noise has the law that the exponential mechanism draws."""
    plan = planned("labels", epsilon=1, n_records=60)
    rate, draws = float(plan.labels.choice_rate), np.random.default_rng(0)
    scores = np.array([0, 1, 3])
    noisy = scores + draws.gumbel(scale=1 / rate, size=(40_000, 3))
    shares = np.bincount(noisy.argmax(axis=1), minlength=3) / len(noisy)
    np.testing.assert_allclose(shares, softmax(rate * scores), atol=0.01)
    assert verdict_of(plan).noise == pytest.approx(np.std(noisy - scores), rel=0.02)


def test_what_screening_keeps_is_counted_and_no_more():
    domain = Domain.from_sizes([3] * 12, n_classes=2)
    plan = PrivateForestClassifier(domain, epsilon=0.4, random_state=0).plan()
    assert plan.screening is not None
    many, left = len(plan.screening.choices), float(plan.rest.exact)
    assert many < 12
    assert verdict_of(plan).noise == pytest.approx(np.sqrt(2) * many / left)


@dataclass(frozen=True)
class OwnPlan:
    """A kind of one's own that asks one table."""

    rows: Any
    domain: Domain = field(default_factory=lambda: Domain.from_sizes([3] * 6, n_classes=2))
    budget: PureDP = field(default_factory=lambda: PureDP(1))
    neighboring: str = "add_remove"
    n_records: int = 600
    delta: float = 0.0

    @cached_property
    def steps(self):
        return (StrategyStep("counts", calibrate(self.rows, self.budget)),)


@pytest.mark.parametrize(("rows", "records"), [(np.eye(3), 200), (np.ones((1, 3)), 600)])
def test_a_kind_of_ones_own_is_judged_by_what_it_asks(rows, records):
    """A histogram of one of six attributes, or class totals: the others share no budget."""
    plan = OwnPlan(rows)
    found = verdict_of(plan)
    law = DiscreteLaplace(1.0)
    assert found.noise == pytest.approx(np.sqrt(law.variance))
    assert found.records == pytest.approx(records)
    assert verdict_of(replace(plan, budget=PureDP(0.1))).noise > 9 * found.noise
    assert not verdict_of(replace(plan, n_records=49)).ok
