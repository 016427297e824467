"""One release, many forests: a classifier of any forest that a release can answer."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mrf_matrix.base.checks import one_word, structure_generator
from mrf_matrix.compilation import path_matrix
from mrf_matrix.domain import Domain, required_domain
from mrf_matrix.domain.domain import sorted_classes
from mrf_matrix.estimators.released.released_forest import ReleasedForestClassifier
from mrf_matrix.estimators.shared.parameters import GivenForest, RandomState
from mrf_matrix.forests import Forest, check_structure_is_public, concatenate
from mrf_matrix.forests.sources.ensembles import Ensemble, check_as_public, grown_publicly
from mrf_matrix.kinds.matrix import structure_notes
from mrf_matrix.mechanisms import Release, reconstruct
from mrf_matrix.mechanisms.measurement.release import checked_release
from mrf_matrix.reports.privacy_report import Measurement, report_of_releases
from mrf_matrix.voting.ensemble import ReleasedEnsemble
from mrf_matrix.voting.voting import NOISE_AWARE_VOTINGS, SHRINKAGES


def from_release(
    release: Release,
    domain: Domain | None = None,
    *,
    forest: GivenForest | Sequence[GivenForest],
    voting: str = "posterior",
    shrinkage: str = "none",
    random_state: RandomState = None,
) -> ReleasedForestClassifier:
    """Return a fitted classifier of a forest, from a release that was made already.

    Any forest whose leaves the release determines will do, as often as one likes: after a release
    of the cells, every forest. It is post-processing and costs nothing.

    Parameters
    ----------
    release : Release
    domain : Domain, optional
        The public domain that was measured, with the classes; by default the release's own.
    forest : Forest, path source, or a sequence of forests and sources
        Several vote together, also of several depths.
    voting, shrinkage : str
        See `MatrixForestClassifier`; changed later at no cost by ``set_params``.
    random_state : int, RandomState or None
        Seed of path sources.

    Returns
    -------
    ReleasedForestClassifier

    Raises
    ------
    RowSpaceError
        If the release does not determine some leaf.
    TypeError, ValueError
        If an argument is not of the kind described, or a forest was learned from records without
        a budget (a `LearnedStructureError`).

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators.training.matrix_forest import MatrixForestClassifier
    >>> from mrf_matrix.forests.sources.random_trees import RandomTrees
    >>> car = load_dataset("car")
    >>> model = MatrixForestClassifier(car.domain, strategy="identity", random_state=0)
    >>> release = model.fit(car.X, car.y).release_
    >>> several = [RandomTrees(32, depth) for depth in (1, 2, 3)]
    >>> mixed = from_release(release, car.domain, forest=several, random_state=0)
    >>> mixed.predict(car.X).shape
    (1728,)
    """
    checked_release(release)
    known = required_domain(release.domain if domain is None else domain)
    _check_measured(release, known)
    one_word("voting", voting, NOISE_AWARE_VOTINGS)
    one_word("shrinkage", shrinkage, SHRINKAGES)
    grown = _grown(forest, known, random_state)
    if release.is_private:
        check_structure_is_public(grown, "what is claimed", allow_spent=True)
    release = release.resting_on(known.provenance, grown.provenance)
    workload = path_matrix(grown)
    classes, order = sorted_classes(known)
    whole = tuple(range(known.n_attributes))
    ensemble = ReleasedEnsemble(whole, grown, reconstruct(release, workload)[:, order], release)
    measured = Measurement.of(release, f"the release, by strategy {release.method!r}")
    report = report_of_releases(
        [release], [measured], 0.0,
        expected_rms_per_leaf=float(np.sqrt(ensemble.leaves.variances.mean())),
        notes=structure_notes([Ensemble(whole, grown)]),
    )  # fmt: skip
    if grown.is_data_dependent:
        report = report.with_structure_that_was_paid_for()
    return ReleasedForestClassifier(
        (ensemble,), known, classes, report, voting=voting, shrinkage=shrinkage
    )


def _check_measured(release: Release, domain: Domain) -> None:
    replace(release, domain=domain)  # refuses other sizes and classes than were measured


def _grown(
    forest: GivenForest | Sequence[GivenForest], domain: Domain, random_state: RandomState
) -> Forest:
    given = list(forest) if isinstance(forest, Sequence) else [forest]
    generator = structure_generator(random_state)
    grown = []
    for one in given:
        if not isinstance(one, Forest) and not hasattr(one, "grow"):
            raise TypeError(
                f"forest={one!r}: expected a Forest, a path source such as RandomTrees, "
                f"or a sequence of forests."
            )
        made = one if isinstance(one, Forest) else grown_publicly(one, domain, generator)
        if made.domain.sizes != domain.sizes:
            raise ValueError(
                f"forest has a domain of sizes {made.domain.sizes}: expected {domain.sizes}, the "
                f"one that was measured."
            )
        check_as_public(made, domain)
        grown.append(replace(made, domain=domain) if len(given) > 1 else made)
    if not grown:
        raise ValueError("forest is empty: expected at least one forest.")
    return grown[0] if len(grown) == 1 else concatenate(grown)
