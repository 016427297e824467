"""Models that follow from one release over all attributes: what their files have in common."""

import numpy as np

from mrf_matrix.base.arrays import Values
from mrf_matrix.base.fields import FieldError
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.files.container import Container
from mrf_matrix.files.models.answers import check_answers
from mrf_matrix.files.release_record import release_of
from mrf_matrix.mechanisms import Mechanism, Release
from strategies.operator_files import encode


def release_and_domain(container: Container, data: object) -> tuple[Release, Domain]:
    """Return the release of a model's file, and the domain that it was measured over.

    Raises FieldError if they do not agree, or an answer is absurd.
    """
    release, described = release_of(container.under(data))
    domain = Domain.from_dict(described)
    if domain.target is None or domain.sizes != release.sizes:
        raise FieldError("domain: expected the attributes of the release, and a target.")
    if domain.n_classes != release.n_classes or len(sorted_classes(domain)[0]) != domain.n_classes:
        raise FieldError("domain: expected the classes of the release, each of them once.")
    check_answers(release.answers)
    return release.resting_on(domain.provenance), domain


def same_mechanism(one: Mechanism, other: Mechanism) -> bool:
    """Say whether two mechanisms measure the same integer strategy."""
    if one.rounded.scale != other.rounded.scale:
        return False
    (shape, arrays), (found, others) = (encode(m.rounded.matrix) for m in (one, other))
    return shape == found and all(_equal(arrays[name], others[name]) for name in arrays)


def _equal(one: Values, other: Values) -> bool:
    return one.dtype == other.dtype and np.array_equal(one, other)
