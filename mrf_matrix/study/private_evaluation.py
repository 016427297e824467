"""How good a model is on private test records: one histogram is released, all else follows."""

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from mrf_matrix.base.arrays import Seed
from mrf_matrix.base.checks import checked_level
from mrf_matrix.base.display import RowDisplay
from mrf_matrix.base.fields import JsonObject
from mrf_matrix.base.work import keep_draws
from mrf_matrix.domain import Domain
from mrf_matrix.domain.columns import Records
from mrf_matrix.estimators.base import BaseForestClassifier
from mrf_matrix.estimators.prediction import PrivatePredictionClassifier
from mrf_matrix.mechanisms import (
    ZCDP,
    CellCounts,
    PrivacyLedger,
    PureDP,
    Release,
    as_budget,
    calibrate,
    count_cells,
)
from mrf_matrix.mechanisms.budget import claiming_budgets
from mrf_matrix.mechanisms.ledger.payers import BudgetRequest, default_ledger, noise_stream, pay
from mrf_matrix.mechanisms.ledger.rules import check_claims
from mrf_matrix.mechanisms.statement import Claim, provenance_to_dict
from mrf_matrix.release.curator import Live, StrategyStep
from mrf_matrix.release.plan import PlanOfSteps
from mrf_matrix.reports.attachments import EVALUATION
from mrf_matrix.study.calibration import METRICS
from mrf_matrix.study.table_figures import Figure, ProbabilityGrid, figures, grid_error
from strategies.operators import Identity

LABELS = METRICS | {"recall": "recall of {}", "precision": "precision of {}"}
UNSEEN = "too few records for this noise"


@dataclass(frozen=True, eq=False, repr=False)
class PrivateEvaluation(RowDisplay):
    """Figures of a model on private test records, from one release of a small histogram.

    Everything it shows is post-processing of the release.

    Parameters
    ----------
    release : Release
        Noisy counts of test records, a row for each bin of probability and a column for each class.
    grid : ProbabilityGrid
        The public bins.
    classes : tuple
        The classes, in the order of the columns.
    level : float
        Level of the intervals.
    delta : float
        The δ of the claim.
    model_hash : str or None
        SHA-256 of the model's file: by it a report knows whose evaluation it is.
    """

    release: Release
    grid: ProbabilityGrid
    classes: tuple[Any, ...]
    level: float = field(default=0.95, kw_only=True)
    delta: float = field(default=0.0, kw_only=True)
    model_hash: str | None = field(default=None, kw_only=True)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """Every figure by name, with its interval and the standard error of sampling.

        The interval holds what the noise leaves open about these test records. The standard error
        says how far other test records would have given another figure.
        """
        return figures(self.release.values, self.release.law, self.grid, self.level)

    def at(self, threshold: float) -> "PrivateEvaluation":
        """Return the evaluation of labels by another threshold, an edge of the grid, at no cost."""
        return replace(self, grid=self.grid.at(threshold))

    @property
    def statement(self) -> str:  # type: ignore[override]
        """One sentence on what is protected of the test records."""
        return f"{EVALUATION} {self.claim.statement}"

    @property
    def claim(self) -> Claim:
        """What is claimed for the test records."""
        return replace(self.release.claim, delta=self.delta)

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Names and values for people."""
        rows = [
            (LABELS[name].format(self.classes[-1]), _figure_text(figure))
            for name, figure in self.figures.items()
        ]
        auc = self.figures.get("auc")
        if auc is not None and auc.value is not None:
            error = grid_error(self.release.values)
            rows.append(("AUC, not rounded", f"about within ±{error:.3f} of that"))
        rows.append(("intervals", f"{self.level:.0%} for the noise; ± is one standard error"))
        whose = "the second class" if self.grid.n_classes == 2 else "the predicted class"
        bins = f"of {whose}, rounded to midpoints of {len(self.grid.midpoints)} public bins"
        rows.append(("probabilities", bins))
        if self.grid.threshold is not None:
            rows.append(("threshold", f"{self.grid.threshold:.4g}"))
        return rows

    def to_dict(self) -> JsonObject:
        """Return the evaluation as plain values, ready for JSON."""
        release = self.release
        return {
            "schema_version": 1,
            "statement": self.statement,
            "is_private": release.is_private,
            "budget": repr(release.budget),
            "delta": self.delta,
            "neighboring": release.neighboring,
            "provenance": provenance_to_dict(release.provenance),
            "noise": release.noise,
            "noise_scale": float(release.noise_scale),
            "level": self.level,
            "threshold": self.grid.threshold,
            "edges": self.grid.edges.tolist(),
            "classes": list(self.classes),
            "model": self.model_hash,
            "noisy_counts": release.answers.tolist(),
            "figures": {name: vars(figure) for name, figure in self.figures.items()},
        }

    def __repr__(self) -> str:
        return f"PrivateEvaluation({self.statement})"


def evaluate(
    model: BaseForestClassifier,
    X: object,
    y: object,
    *,
    epsilon: object = None,
    rho: object = None,
    delta: float = 0.0,
    neighboring: str = "add_remove",
    noise: str = "exact",
    noise_state: Seed = None,
    ledger: PrivacyLedger | None = None,
    n_bins: int = 20,
    threshold: float | None = None,
    level: float = 0.95,
    model_hash: str | None = None,
) -> PrivateEvaluation:
    r"""Evaluate a fitted model on private test records, under a budget of their own.

    Records are counted by bin of predicted probability and class, :math:`n_{bc}`. One record more
    or less changes one cell by 1, one record replaced two cells: discrete Laplace noise has scale
    :math:`1/\varepsilon` or :math:`2/\varepsilon`. All figures follow from the noisy counts.
    Labels are those of the largest probability, or of two classes of ``p > threshold``.

    Parameters
    ----------
    model : fitted classifier of ours
        It is public here. What protects its training records is its own release.
    X, y : frame or array of shape (N, d), array of shape (N,)
        Private test records in the model's terms, and their classes.
    epsilon, rho : number
        Exactly one: pure DP with Laplace noise, or zCDP with Gaussian noise. There is no default,
        since an evaluation without noise shows the records. ``float("inf")`` adds none, and the
        result says that it is NOT PRIVATE.
    delta : float, default=0
        Beside ``epsilon``, claims (ε, δ)-DP by the law of smaller variance. One record is in one
        cell here, so Laplace noise is that unless δ is large.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
    noise, noise_state
        "exact", or "research" with a seed, for studies.
    ledger : PrivacyLedger, optional
        Of the test records. Charged once, after all checks and before the counts are measured.
        None: that of `privacy_ledger`, if there is one.
    n_bins : int, default=20
        Bins of the probability; more of them round less, and add noise.
    threshold : float, optional
        For two classes, .5 by default; `PrivateEvaluation.at` takes other edges of the grid later.
    level : float, default=0.95
        Level of the intervals.
    model_hash : str, optional
        SHA-256 of the model's file, kept in the record: `model_report` refuses another model's.

    Returns
    -------
    PrivateEvaluation

    Raises
    ------
    TypeError, ValueError
        If an argument or a record is not of the kind described, or the ledger cannot pay (a
        `BudgetError`). Nothing is spent then.

    Examples
    --------
    >>> from mrf_matrix import Domain, PrivateNaiveBayesClassifier
    >>> X, y = np.array([[0], [1]] * 500), np.array([0, 1] * 500)
    >>> public = Domain.from_sizes([2], n_classes=2)
    >>> model = PrivateNaiveBayesClassifier(public, epsilon=1, noise="research", noise_state=0)
    >>> found = evaluate(model.fit(X, y), X, y, epsilon=1, noise="research", noise_state=1)
    >>> round(found.figures["accuracy"].value, 2), found.release.is_private
    (1.0, False)
    """
    domain = _domain_of(model)
    payer = default_ledger() if ledger is None else ledger
    check_claims(domain.provenance, payer)
    grid = ProbabilityGrid.of(len(model.classes_), n_bins, threshold)
    asked = checked_level(level)
    budget = evaluation_budget(epsilon, delta, rho, neighboring)
    what = f"evaluation of {getattr(model, 'released_by', type(model).__name__)}"
    bill = BudgetRequest(payer, budget, what, neighboring, noise, noise_state)
    mechanism = calibrate(Identity(grid.n_rows), budget, neighboring=neighboring)
    mechanism.check_memory(grid.n_classes)
    bill.check()
    plan = PlanOfSteps(domain, (StrategyStep("graded records", mechanism),), float(delta))
    curator = Live(
        plan, (X, y), partial(pay, bill), noise, noise_stream(noise, noise_state),
        provenance=domain.provenance | bill.provenance,
    )  # fmt: skip
    with keep_draws(), curator:
        (release,) = curator.measure_all([GradedRecords(model, grid)])
        return PrivateEvaluation(
            release, grid, tuple(model.classes_.tolist()),
            level=asked, delta=plan.delta, model_hash=model_hash,
        )  # fmt: skip


def evaluation_budget(
    epsilon: object = None, delta: object = 0, rho: object = None, neighboring: str = "add_remove"
) -> PureDP | ZCDP:
    """Return the budget of least noise that makes the claim; there is no default.

    Raises BudgetError, TypeError if there is not exactly one of ε and ρ, or δ does not go with it.

    >>> evaluation_budget(1, 1e-6)
    PureDP(epsilon=1)
    >>> type(evaluation_budget(0.01, 0.01, neighboring="replace_one")).__name__
    'ZCDP'
    """
    if epsilon is None:
        as_budget(epsilon=epsilon, rho=rho)  # refuses none at all
    made = (
        calibrate(Identity(1), one, neighboring=neighboring)
        for one in claiming_budgets(epsilon, delta, rho)
    )
    return min(made, key=lambda one: one.law.variance).budget


def _domain_of(model: BaseForestClassifier) -> Domain:
    if isinstance(model, PrivatePredictionClassifier):
        raise TypeError(
            f"model is a {type(model).__name__}, which takes its queries for public and spends "
            f"budget on them: expected one that is released once, such as PrivateForestClassifier."
        )
    missing = [
        name for name in ("domain_", "classes_", "predict_proba") if not hasattr(model, name)
    ]
    if missing:
        raise TypeError(
            f"model is a {type(model).__name__} without {', '.join(missing)}: expected a fitted "
            f"classifier of ours, from fit or load_model."
        )
    return model.domain_


@dataclass(frozen=True, eq=False)
class GradedRecords:
    """Records by bin of predicted probability and by class: one record is in one cell."""

    model: BaseForestClassifier
    grid: ProbabilityGrid
    kind: ClassVar[str] = StrategyStep.kind
    n_cells: ClassVar[int] = 0  # the step knows its strategy

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.grid.n_rows,)

    @property
    def n_columns(self) -> int:
        return self.grid.n_classes

    def counts(self, data: tuple[Records, object]) -> CellCounts:
        X, y = data
        domain, classes = self.model.domain_, self.model.classes_
        places = np.searchsorted(classes, np.asarray(domain.classes))
        labels = places[domain.encode_target(y)].astype(np.int32)
        shares = self.model.predict_proba(X)
        if len(shares) != len(labels):
            raise ValueError("X and y have different lengths: expected a class for each record.")
        if not len(labels):
            raise ValueError("X has no records: expected at least one to evaluate on.")
        rows = self.grid.rows(shares, labels)
        return count_cells(rows[:, None], labels, self.sizes, self.n_columns)


def _figure_text(figure: Figure) -> str:
    if figure.value is None:
        return UNSEEN
    return (
        f"{figure.value:.3f}, noise {figure.low:.3f} to {figure.high:.3f}, "
        f"sampling ±{figure.sampling_error:.3f}"
    )
