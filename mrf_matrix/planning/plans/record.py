"""A plan's figures: as plain values for the command line and JSON files, and in one line."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mrf_matrix.planning.plain_values import plain
from mrf_matrix.planning.plans.flips import flips

if TYPE_CHECKING:
    from mrf_matrix.planning.plans.plan import Plan

SHARES = (0.1, 0.2, 0.5)
"""Leads whose flip probability a summary states, as shares of the records of an answer."""

SAMPLED = 64
"""Answers whose flip probability is averaged in a summary, spread over the ranks of error."""


def record(plan: "Plan", *, bound: bool = False) -> dict[str, Any]:
    """Return a plan's figures; what is not finite is None."""
    figures: dict[str, Any] = {
        "mode": plan.mode,
        "allocation": plan.allocation,
        "voting": plan.voting,
        "budget": repr(plan.budget),
        "neighboring": plan.neighboring,
        "attributes": plan.domain.n_attributes,
        "cells": plan.domain.size,
        "classes": plan.n_classes,
        "queries": int(plan.multiplicity.sum()),
        "records": plan.n_records,
        "sensitivity": plan.sensitivity,
        "noise_scale": plan.noise_scale,
        "expected_total_squared_error": plan.total,
        "worst_row": plan.worst_row,
        "worst_rms": plan.worst_rms,
        "seconds": plan.seconds,
        "arrays": [size.to_dict() for size in plan.array_sizes],
        "ensembles": [part.summary() for part in plan.parts],
    }
    if notes := dict.fromkeys(filter(None, (part.ensemble.depth_note for part in plan.parts))):
        figures["notes"] = list(notes)
    if plan.releases_leaves:
        figures["rms_per_leaf"] = plan.rms_per_leaf
    if plan.mode != "posterior":
        figures["rms_per_vote"] = plan.rms_per_vote
    if bound and all(part.strategy is not None for part in plan.parts):
        figures["lower_bound"] = plan.lower_bound
        figures["certified_ratio"] = plan.certified_ratio
    if plan.n_records is not None:
        figures["median_expected_records"] = float(np.median(plan.expected_records))
        figures["median_signal_to_noise"] = float(np.median(plan.signal_to_noise))
        figures["mean_flip_probability"] = {
            f"lead of {share:.0%} of records": value
            for share, value in zip(SHARES, mean_flips(plan, SHARES), strict=True)
        }
    plainly: dict[str, Any] = plain(figures)
    return plainly


def as_line(plan: "Plan") -> str:
    """Return trees, answers, strategies, budget and expected error in one line."""
    unit = "leaf" if plan.releases_leaves else "vote"
    rms = plan.rms_per_leaf if plan.releases_leaves else np.sqrt(np.mean(plan.row_variances))
    methods = sorted(
        {"as measured" if p.strategy is None else p.strategy.method for p in plan.parts}
    )
    trees = sum(part.ensemble.forest.n_trees for part in plan.parts)
    return (
        f"Plan({plan.mode}, {trees} trees in {len(plan.parts)} ensemble"
        f"{'s' * (len(plan.parts) > 1)}, {len(plan.row_variances)} answers by "
        f"{', '.join(methods)}, {plan.budget!r} under {plan.neighboring} neighbours, expected "
        f"error {rms:.4g} rms per {unit})"
    )


def mean_flips(plan: "Plan", shares: Sequence[float]) -> list[float]:
    """Return mean flip probabilities of a sample of answers at shares of their records."""
    variances = plan.row_variances
    order = np.argsort(variances)
    places = np.linspace(0, len(order) - 1, min(SAMPLED, len(order))).round().astype(np.intp)
    rows = order[places]
    margins = np.outer(plan.expected_records[rows], shares)
    found = flips(plan, rows, margins, variances[rows], 1, plan.releases_leaves)
    return [float(value) for value in found.mean(axis=0)]
