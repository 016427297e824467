"""What a tree of labels implies: of its labels alone, or with noisy class counts of its cells."""

import numpy as np

from mrf_matrix.forests.learned.label_tree import LabelTree
from mrf_matrix.labels.counted_law import counted_evidence
from mrf_matrix.labels.law import label_evidence
from mrf_matrix.labels.plan import LabelPlan
from mrf_matrix.posterior import CellShares, LabelPosterior

LARGEST_RATE = 1e9  # beyond it the largest class is said


def label_posterior(plan: LabelPlan, tree: LabelTree) -> LabelPosterior:
    """Return what a tree implies."""
    if tree.counts is None:
        return LabelPosterior(tree, _of_labels(plan, tree))
    sizes = np.maximum(tree.counts.sum(axis=1, dtype=np.float64), 1)
    return LabelPosterior(tree, _of_counts(plan, tree), sizes / sizes.sum())


def _of_labels(plan: LabelPlan, tree: LabelTree) -> tuple[CellShares, ...]:
    """Return what labels alone say of their cells: the same of the same label."""
    first = label_evidence(plan.n_classes, plan.cell_signal, plan.concentration)
    said = {label: first.turned(label) for label in set(tree.labels.tolist())}
    return tuple(said[label] for label in tree.labels.tolist())


def _of_counts(plan: LabelPlan, tree: LabelTree) -> tuple[CellShares, ...]:
    """Return what labels and counts say of each cell."""
    assert plan.counts is not None
    assert tree.counts is not None
    return tuple(
        counted_evidence(
            noisy,
            label,
            rate=min(float(plan.labels.choice_rate), LARGEST_RATE),
            records=plan.cell_records,
            concentration=plan.concentration,
            law=plan.counts.law,
        )
        for noisy, label in zip(tree.counts, tree.labels.tolist(), strict=True)
    )
