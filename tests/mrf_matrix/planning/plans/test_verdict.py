"""Signal and noise of a plan in words."""

import numpy as np
import pytest

from mrf_matrix import Domain, MatrixForestClassifier, ResidualForestClassifier, plan
from mrf_matrix.base.steps import listening
from mrf_matrix.planning.plans.verdict import NoiseError, Verdict, verdict_of, weighing

DOMAIN = Domain.from_sizes([4, 4], n_classes=2)
DESIGN = {"n_trees": 4, "max_depth": 2, "strategy": "identity"}


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
    assert words in str(Verdict(unit, noise, records))


@pytest.mark.parametrize("mode", ["training", "posterior", "prediction", "subsample", "residual"])
def test_every_kind_of_plan_has_a_verdict_that_follows_the_budget(mode):
    design = {"n_blocks": "auto"} if mode in ("posterior", "residual") else DESIGN
    few, many = (plan(DOMAIN, mode, epsilon=e, n_records=100, **design) for e in (1e-3, 1e3))
    assert verdict_of(few).is_hopeless
    assert not verdict_of(many).is_hopeless
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


@pytest.mark.parametrize("kind", [MatrixForestClassifier, ResidualForestClassifier])
def test_strict_fits_are_refused_before_they_spend(kind):
    design = DESIGN if kind is MatrixForestClassifier else {}
    told = []
    with listening(lambda step, done, total: told.append(step)):
        with weighing(8, strict=True), pytest.raises(NoiseError, match="do not deploy"):
            kind(DOMAIN, epsilon=0.001, **design).fit(X, Y)
        assert not any(step.startswith("Drawing") for step in told)
        with weighing(strict=True), pytest.raises(NoiseError, match="n_records"):
            kind(DOMAIN, epsilon=1, **design).fit(X, Y)
    with weighing(8) as verdicts:
        kind(DOMAIN, epsilon=0.001, **design).fit(X, Y)
    assert verdicts[0].is_hopeless


def test_reports_say_it_where_the_number_is_public():
    known = MatrixForestClassifier(DOMAIN, n_records=8, **DESIGN).fit(X, Y).privacy_report_
    assert any("typical leaf" in note for note in known.notes)
    unknown = MatrixForestClassifier(DOMAIN, **DESIGN).fit(X, Y).privacy_report_
    assert not any("typical leaf" in note for note in unknown.notes)
