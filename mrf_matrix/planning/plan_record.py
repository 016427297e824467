"""A plan's figures as plain values: what the command line prints and JSON files hold."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mrf_matrix.planning.design_plan import Plan

SAMPLED = 64
"""Answers whose flip probability is averaged in a summary, spread over the ranks of error."""


def record(plan: "Plan", *, bound: bool = False) -> dict[str, Any]:
    """Return a plan's figures."""
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
        "rms_per_vote": plan.rms_per_vote,
        "worst_row": plan.worst_row,
        "worst_rms": plan.worst_rms,
        "seconds": plan.seconds,
        "arrays": [size.to_dict() for size in plan.array_sizes],
        "ensembles": [part.summary() for part in plan.parts],
    }
    if plan.mode == "training":
        figures["rms_per_leaf"] = plan.rms_per_leaf
    if bound and plan.allocation == "matrix":
        figures["lower_bound"] = plan.lower_bound
        figures["certified_ratio"] = plan.certified_ratio
    if plan.n_records is not None:
        figures["median_expected_records"] = float(np.median(plan.expected_records))
        figures["median_signal_to_noise"] = float(np.median(plan.signal_to_noise))
        figures["mean_flip_probability"] = {
            f"lead of {share:.0%} of records": mean_flip(plan, share) for share in (0.1, 0.2, 0.5)
        }
    return figures


def mean_flip(plan: "Plan", share: float) -> float:
    """Return the mean flip probability of a sample of answers at a share of their records."""
    order = np.argsort(plan.row_variances)
    places = np.linspace(0, len(order) - 1, min(SAMPLED, len(order))).round().astype(np.intp)
    return float(plan.flip_probabilities(share=share, rows=order[places].tolist()).mean())
