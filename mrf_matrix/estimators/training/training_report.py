"""What a training release may say of its privacy."""

from collections.abc import Sequence

from mrf_matrix.estimators.shared.ensembles import structure_notes
from mrf_matrix.estimators.training.allocation import TrainedEnsemble, Training
from mrf_matrix.planning.plans.answering import total_budget
from mrf_matrix.reports.privacy_report import (
    Measurement,
    PrivacyReport,
    common_neighboring,
    root_mean,
    statement_of,
    worst_noise,
)

MEASURED = {
    "matrix": "cells of the domain",
    "per_tree": "every leaf of every tree",
    "disjoint": "every leaf, each record in one tree",
}


def training_report(
    trainings: Sequence[Training], ensembles: Sequence[TrainedEnsemble]
) -> PrivacyReport:
    """Return the report of a training release; every figure comes from the releases."""
    releases = [one.release for one in ensembles]
    budget = total_budget([release.budget for release in releases])
    report = PrivacyReport(
        statement=statement_of(releases, budget),
        budget=repr(budget),
        neighboring=common_neighboring(releases),
        noise=worst_noise(releases),
        measurements=tuple(
            Measurement.of(release, _measured(training))
            for training, release in zip(trainings, releases, strict=True)
        ),
        expected_rms_per_leaf=expected_rms_per_leaf(trainings),
        notes=structure_notes([training.ensemble for training in trainings]),
    )
    return report.of_releases(releases)


def _measured(training: Training) -> str:
    strategy = training.answering.strategy
    family = f" by strategy {strategy.method!r}" if strategy else ""
    return MEASURED[training.allocation] + family


def expected_rms_per_leaf(trainings: Sequence[Training]) -> float:
    """Return the root-mean-square error of one leaf value, in records, known without data."""
    leaves = [training.ensemble.forest.n_leaves for training in trainings]
    return root_mean(sum(map(_leaf_squares, trainings)), sum(leaves))


def _leaf_squares(training: Training) -> float:
    """Return the expected squared error of all leaf values of an ensemble, in one class."""
    answering = training.answering
    strategy, mechanism = answering.strategy, answering.mechanism
    scaled = mechanism.law.variance / float(mechanism.rounded.scale) ** 2
    if strategy is None:
        return scaled * training.ensemble.forest.n_leaves
    return scaled * strategy.loss / strategy.sensitivity**2
