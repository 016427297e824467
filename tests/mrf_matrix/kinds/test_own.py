"""A kind of one's own: a plan, a kind and a face, and nothing registered."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest

from mrf_matrix import Attribute, Domain, PrivacyLedger, PureDP, count_stream, save_model
from mrf_matrix.estimators.parameters import parameters
from mrf_matrix.estimators.plan_fit import FitsByPlan
from mrf_matrix.files import ModelFileError
from mrf_matrix.kinds.model import Kind
from mrf_matrix.mechanisms import BudgetError, calibrate
from mrf_matrix.planning import peak_bytes, weigh_signals
from mrf_matrix.release.curator import Cells, StrategyStep
from strategies.operators import Identity, MemoryCapError, memory_cap


@dataclass(frozen=True)
class RulePlan:
    """One histogram."""

    domain: Domain
    budget: PureDP
    attribute: int
    neighboring: str = "add_remove"
    n_records: int | None = None
    delta: float = 0.0

    @cached_property
    def steps(self):
        cells = Identity(self.domain.sizes[self.attribute])
        made = calibrate(cells, self.budget, neighboring=self.neighboring)
        return (StrategyStep("one histogram", made),)


@dataclass(frozen=True)
class RulePosterior:
    """Class shares of an attribute's codes."""

    shares: np.ndarray
    attribute: int

    def probabilities(self, codes):
        return self.shares[codes[:, self.attribute]]


class Rule(Kind):
    """Labels by one attribute."""

    name, structure_keys, estimator = "one_rule", frozenset({"attribute"}), "OneRuleClassifier"

    def learn(self, plan, curator):
        (step,), place = plan.steps, plan.attribute
        asked = Cells((place,), (plan.domain.sizes[place],), plan.domain.n_classes)
        counts = np.maximum(curator.measure(step, asked).values, 1.0)
        return RulePosterior(counts / counts.sum(axis=1, keepdims=True), place)

    def public(self, plan):
        return ("the domain and the classes",)

    def notes(self, plan):
        return ()

    def numbers(self, posterior):
        yield posterior.shares

    def structure(self, plan):
        return {"attribute": plan.attribute}

    def plan_from(self, known, structure):
        return RulePlan(known.domain, known.budget, structure["attribute"], known.neighboring)


@parameters
class OneRuleClassifier(FitsByPlan):
    """Labels by one attribute.

    Parameters
    ----------
    attribute : int, default=0
        Which.
    """

    attribute: int = 0
    _kind = Rule()

    def _plan(self, domain):
        return RulePlan(domain, self._budget, self.attribute, self.neighboring, 600)


DOMAIN = Domain(
    [Attribute("a", size=2), Attribute("b", categories=["x", "y", "z"])],
    target=Attribute("class", categories=["yes", "no", "maybe"]),
)
PLACES = np.arange(600) % 3
X = {"a": PLACES % 2, "b": np.array(["x", "y", "z"])[PLACES]}
Y = np.array(DOMAIN.classes)[PLACES]


def test_it_is_fitted_from_records_counts_and_streams_and_is_charged_once():
    ledger = PrivacyLedger(epsilon=60)
    model = OneRuleClassifier(DOMAIN, epsilon=20, attribute=1, ledger=ledger)
    assert (model.fit(X, Y).predict(X) == Y).all(), "classes are in their own order"
    batches = [({name: one[i::2] for name, one in X.items()}, Y[i::2]) for i in range(2)]
    assert (model.fit_stream(batches).predict(X) == Y).all()
    assert (model.fit_counts(count_stream(batches, DOMAIN)).predict(X) == Y).all()
    assert ledger.spent == 60
    with pytest.raises(BudgetError):
        model.fit(X, Y)
    assert "one histogram" in str(model.privacy_report_)
    assert "one histogram" in str(model.report_)


def test_it_is_judged_and_its_memory_is_asked_before_it_is_paid_for():
    ledger = PrivacyLedger(epsilon=20)
    model = OneRuleClassifier(DOMAIN, epsilon=20, attribute=1, ledger=ledger)
    with memory_cap(peak_bytes(model.plan()) - 1), pytest.raises(MemoryCapError, match="histogram"):
        model.fit(X, Y)
    assert ledger.spent == 0
    with weigh_signals(strict=True) as verdicts:
        model.fit(X, Y)
    assert verdicts[0].noise < 0.1
    assert verdicts[0].records == 200


def test_no_file_is_written_that_nobody_reads(tmp_path):
    model = OneRuleClassifier(DOMAIN, epsilon=20, attribute=1).fit(X, Y)
    with pytest.raises(ModelFileError, match="one of KINDS in"):
        save_model(model, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_kind_that_does_not_say_what_is_public_is_refused():
    with pytest.raises(TypeError, match="public_parts"):
        type("Silent", (Kind,), {"name": "silent"})
    assert type("Plain", (Kind,), {"public_parts": ("the domain",)}).public_parts == ("the domain",)
