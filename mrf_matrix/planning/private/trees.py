"""Kinds that hold a tree of labels: taken at some signals, whatever the scale says."""

from dataclasses import replace
from math import inf

import numpy as np

from mrf_matrix.domain import Domain
from mrf_matrix.labels import LabelPlan, label_plan
from mrf_matrix.labels.plan import MOST_ENTRIES, MOST_RECORDS, label_signal, why_no_labels
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.planning.private.label_forecast import right_of_labels
from mrf_matrix.planning.private.one_scale import Scale
from mrf_matrix.planning.private.pooled_plan import shared
from mrf_matrix.planning.private.private_plan import Forecast, Measured
from mrf_matrix.residual.settings import Budget

LABELS_UP_TO, LABELS_OF_SEVERAL = 300, 500
"""Signals (`label_signal`) up to which a tree of labels is taken where none is pooled; the second
of five classes or more, between them by steps of `LABELS_A_CLASS`. There tables were 2 to 10 points
behind it on public sets, though the prior, which knows neither rough codes nor classes of their own
size, may expect tables ahead."""

LABELS_A_CLASS, LABELS_AN_ATTRIBUTE = 100, 50
"""Signals a class and an attribute up to which it is: three classes have `LABELS_UP_TO`."""

LABELS_OF_MANY, MANY = 1500, 10
"""The same of several classes and so many attributes or more, whose trees are drawn in two rounds
and were 4 points ahead of tables from 700 to 1500; of fewer attributes tables were ahead."""

UNDER_ZCDP = 0.4
"""Part of that signal, and of those below, under zCDP: tables have the smaller noise there for the
same rate of choices."""

POOLED = {"l1": (200, 6000), "l2": (300, 5000)}
"""Signals between which a tree of labels and tables are pooled, of two classes, by the norm of the
noise. On public sets either alone was 1 to 4 points behind both; above, tables alone were as
good."""

SEVERAL_POOLED_UP_TO = {"l1": 6000, "l2": 2000}
"""Signals up to which they are pooled of several classes and `MANY` attributes, from where labels
end. Pools were 1 point ahead of tables at 2000 and 3000, and as right at 6000, with .05 less
log-loss; under Gaussian noise as right at 2000, with .03 less."""

RESIDUALS_FROM = {"l1": 3000, "l2": 1500}
"""Signals from which the tables beside a tree of two classes are residuals. Where these do not suit
tables stay beside it, unless screening would ask a last question: they were 1 to 2.5 points ahead
of tables alone, and level with screening that asks it."""

SIGNAL_A_RECORD, FEW_RECORDS = 2, 500
"""Signal a record up to which labels of `MANY` attributes are taken further than those of fewer,
and pools are of two classes and fewer records than that. Above, where noise hardly blurs them,
pools of several classes were up to 3 points ahead of tables, labels alone right more often and
worse at ranks; pools of two classes were 1 point ahead of 500 records and more, and of fewer level
with tables, or behind."""

CLEAR_OF_GAUSS = 3
"""The same of all other pools under Gaussian noise: at 2.1 they were half a point ahead of two
classes and 2 of several, at 3.9 half a point behind and 2."""


def has_trees(scale: Scale) -> bool:
    """Tell whether a tree of labels suits the domain, and can be drawn of so many records."""
    domain, known = scale.domain, scale.n_records
    suits = not scale.budget.is_infinite and why_no_labels(domain) is None
    most = min(MOST_RECORDS, MOST_ENTRIES // domain.n_classes)
    return suits and known is not None and known <= most


def of_labels(scale: Scale, pooling: Budget) -> list[Forecast]:
    """Return what is expected of a tree of labels alone, where there is little data.

    `pooling`: of the law under which trees are pooled, where there is more.
    """
    signal, most = _signal(scale), labels_up_to(scale.domain, scale.n_records)
    if _pools(scale):  # labels end where pools begin
        signal = _signal(replace(scale, budget=pooling))
        most = most if scale.domain.n_classes > 2 else POOLED[pooling.norm][0]
    if signal > most:
        return []
    plan, right = _planned(scale, scale.budget)
    return [Forecast(f"labels of {plan.n_cells} cells", scale.budget, right, "labels")]


def labels_up_to(domain: Domain, n_records: int | None) -> int:
    """Return the signal up to which a tree of labels is taken where none is pooled.

    >>> [labels_up_to(Domain.from_sizes([4] * 9, n_classes=k), 1000) for k in (2, 3, 4, 5, 10)]
    [300, 300, 400, 450, 450]
    >>> few, many = (Domain.from_sizes([4] * d, n_classes=5) for d in (3, 10))
    >>> labels_up_to(few, 1000), labels_up_to(many, 1000), labels_up_to(many, 400)
    (150, 1500, 800)
    """
    of_classes = min(LABELS_A_CLASS * domain.n_classes, LABELS_OF_SEVERAL)
    most = min(max(LABELS_UP_TO, of_classes), LABELS_AN_ATTRIBUTE * domain.n_attributes)
    if domain.n_classes == 2 or domain.n_attributes < MANY:
        return most
    return max(most, min(LABELS_OF_MANY, SIGNAL_A_RECORD * (n_records or 0)))


def of_pool(scale: Scale, *, records: bool, asks: bool) -> list[Forecast]:
    """Return what is expected of a tree beside tables: what the better of both would have.

    `records`: whether the records themselves will be there; `asks`: whether screening, which is
    considered too, would ask a last question.
    """
    least, most = _pooled_between(scale)
    if not least < (signal := _signal(scale)) <= most:
        return []
    k = scale.domain.n_classes
    clear = k == 2 and signal > RESIDUALS_FROM[scale.budget.norm]
    residuals = clear and records and scale.suits_residuals
    if clear and not residuals and asks:
        return []
    of_tree, of_tables = shared(scale.budget, scale.n_records, scale.neighboring, k)
    tables = replace(scale, budget=of_tables)
    plan, right = _planned(scale, of_tree)
    right = max(right, tables.right(tables.residual if residuals else tables.posterior))
    beside = "residuals" if residuals else "tables"
    measured: Measured = "residual pool" if residuals else "pool"
    return [
        Forecast(f"tree of {plan.n_cells} cells beside {beside}", scale.budget, right, measured)
    ]


def _pooled_between(scale: Scale) -> tuple[float, float]:
    """Return the signals between which trees are pooled; nothing is between them where none is."""
    known, norm = scale.n_records or 1, scale.budget.norm
    if not _pools(scale):
        return 0, 0
    few = scale.domain.n_classes == 2 and known < FEW_RECORDS
    a_record = SIGNAL_A_RECORD if few else {"l1": inf, "l2": CLEAR_OF_GAUSS}[norm]
    least, most = POOLED[norm]
    if scale.domain.n_classes > 2:
        least, most = labels_up_to(scale.domain, scale.n_records), SEVERAL_POOLED_UP_TO[norm]
    return least, min(most, a_record * known)


def _pools(scale: Scale) -> bool:
    """Tell whether tables say anything that a tree does not: in several tables."""
    is_wide = scale.domain.n_classes == 2 or scale.domain.n_attributes >= MANY
    return scale.width < 1 and is_wide


def _signal(scale: Scale) -> float:
    """Return the signal of labels, as it were under pure privacy."""
    signal = label_signal(scale.budget, scale.n_records, scale.neighboring)
    return signal / (1 if isinstance(scale.budget, PureDP) else UNDER_ZCDP)


def _planned(scale: Scale, budget: Budget) -> tuple[LabelPlan, float]:
    """Return the plan of a tree of labels, and its expected accuracy."""
    plan = label_plan(
        scale.domain,
        budget,
        np.random.default_rng(0),
        n_records=scale.n_records,
        neighboring=scale.neighboring,
    )
    return plan, float(right_of_labels(scale.prior, plan).mean())
