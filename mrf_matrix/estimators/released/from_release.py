"""One release, many forests: a classifier of any forest that a release can answer."""

from collections.abc import Sequence
from dataclasses import replace

from mrf_matrix.base.checks import one_word, structure_generator
from mrf_matrix.domain import Domain, required_domain
from mrf_matrix.estimators.shared.model_face import ReleasedClassifier
from mrf_matrix.estimators.shared.parameters import GivenForest, RandomState
from mrf_matrix.forests import Forest, check_structure_is_public, concatenate
from mrf_matrix.forests.sources.ensembles import check_as_public, grown_publicly
from mrf_matrix.kinds.matrix import model_of_release
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.measurement.release import checked_release
from mrf_matrix.voting.voting import NOISE_AWARE_VOTINGS, SHRINKAGES


def from_release(
    release: Release,
    domain: Domain | None = None,
    *,
    forest: GivenForest | Sequence[GivenForest],
    voting: str = "posterior",
    shrinkage: str = "none",
    random_state: RandomState = None,
) -> ReleasedClassifier:
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
        See `MatrixForestClassifier`; changed later at no cost by ``voted_by``.
    random_state : int, RandomState or None
        Seed of path sources.

    Returns
    -------
    ReleasedClassifier

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
    shrunk = one_word("shrinkage", shrinkage, SHRINKAGES)
    grown = _grown(forest, known, random_state)
    if release.is_private:
        check_structure_is_public(grown, "what is claimed", allow_spent=True)
    release = release.resting_on(known.provenance, grown.provenance)
    return ReleasedClassifier(model_of_release(release, known, grown, voting, shrunk))


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
