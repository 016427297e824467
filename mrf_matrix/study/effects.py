"""A model shown: effects of attributes, contributions to a prediction, importance; all at no cost.

Whatever is shown is post-processing of the release that a model was fitted with. No record is
read but those that a caller asks about.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.checks import short_repr
from mrf_matrix.domain import Domain
from mrf_matrix.domain.columns import Records
from mrf_matrix.estimators.model_face import ModelVotes as ModelVotes
from mrf_matrix.forests.ensembles import attribute_positions
from mrf_matrix.posterior import LabelPosterior, PooledPosterior
from mrf_matrix.posterior.effects import (
    AnyPosterior,
    EffectBand,
    Term,
    constant,
    contributions,
    effect_of,
    terms,
)

Name = str | tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Effect(EffectBand):
    """What one attribute, or several together, add to the log odds.

    Attributes
    ----------
    log_odds, below, above : ndarray, one axis for each attribute
        What the model says, and how far the interval that noise and the drawing of records leave
        reaches below that, and above. Both are the same but where cells of a tree take part.
    half_widths : ndarray of the same shape
        Half of these intervals.
    shares : ndarray of the same shape
        Estimated shares of the records, from the release.
    names : tuple of str
    labels : tuple of tuple of str
        Of each attribute's codes.
    in_order : tuple of int
        How many codes of each attribute, from its first, are in order of value; 0 for names.
    classes : tuple
        The class that the log odds speak for, and the one that they speak against.
    level : float
        Of the intervals.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    in_order: tuple[int, ...]
    classes: tuple[Hashable, Hashable]
    level: float


def effect(
    model: ModelVotes,
    attributes: str | Sequence[str],
    *,
    classes: tuple[Hashable, Hashable] | None = None,
    level: float = 0.95,
) -> Effect:
    """Return the effect of an attribute, or of several together, with its noise band.

    Of tables it is what each adds to the log odds, and of several what they add beyond their own.
    A tree adds the average of its log odds over the codes of its other attributes, which are spread
    as the release has them, and evenly where it does not tell; a tree alone has no other constant
    than what it says. Beside tables it is the sum of both, and of several attributes that the tree
    depends on all that either says of them, their own included.

    Parameters
    ----------
    model : fitted private, posterior, residual or pooled forest, or tree of labels
        Or one of these from a file.
    attributes : str or sequence of str
        A name, or the names of a pair or triple whose table was measured, or of some attributes
        that a tree depends on.
    classes : tuple of two classes, optional
        For which the log odds speak, and against which; the last and the first by default.
    level : float, default=0.95
        Of the band, pointwise, under the model.

    Raises
    ------
    TypeError
        If attributes are no names.
    ValueError
        If the release says nothing of these attributes, or if those of a tree have more than
        65 536 combinations of codes that it tells apart.
    MemoryCapError
        If all codes together are too many.

    Notes
    -----
    Nothing but the release is read; averages and bands: `mrf_matrix.posterior.effects`.
    """
    if not isinstance(level, float) or not 0 < level < 1:
        raise ValueError(f"level={short_repr(level)}: expected a number between 0 and 1.")
    posterior, domain = _posterior_of(model)
    asked = [attributes] if isinstance(attributes, str) else attributes
    if not isinstance(asked, Sequence) or not all(isinstance(one, str) for one in asked):
        raise TypeError(f"attributes={short_repr(attributes)}: expected a name, or several.")
    places = tuple(sorted(attribute_positions("attributes", domain, asked)))
    pair = _class_pair(model, classes)
    found = effect_of(posterior, places, pair, level)
    if found is None:
        told = _why_nothing(posterior, domain, places, pair)
        raise ValueError(f"attributes={short_repr(attributes)}: {told}")
    shown = [domain.attributes[i] for i in places]
    return Effect(
        **vars(found),
        names=tuple(one.name for one in shown),
        labels=tuple(tuple(map(str, one.labels)) for one in shown),
        in_order=tuple(one.n_known if one.is_ordered else 0 for one in shown),
        classes=(domain.classes[pair[0]], domain.classes[pair[1]]),
        level=level,
    )


def explained(
    model: ModelVotes, X: Records, *, classes: tuple[Hashable, Hashable] | None = None
) -> tuple[list[Name], Array]:
    """Return what each term adds to the log odds of records, and its names; the constant first.

    Rows sum to the posterior mean of the log odds; averaged probabilities are nearer to one half.

    Parameters
    ----------
    model : fitted private, posterior, residual or pooled forest
    X : frame or array of shape (b, d)
        Records in the domain's terms.
    classes : tuple of two classes, optional
        See `effect`.

    Returns
    -------
    names : list of str and tuple of str
        "constant", and those of the terms.
    added : ndarray of shape (b, 1 + terms)
    """
    posterior, domain = _posterior_of(model)
    pair = _class_pair(model, classes)
    found, codes = terms(posterior, *pair), model._codes(X)
    first = np.full((len(codes), 1), constant(posterior, *pair))
    names: list[Name] = ["constant", *(_term_name(domain, term) for term in found)]
    return names, np.hstack([first, contributions(found, codes)])


def importance(
    model: ModelVotes, *, classes: tuple[Hashable, Hashable] | None = None
) -> dict[Name, float]:
    """Return how far each term moves the log odds of records, root mean square, largest first.

    Codes are weighed by their shares in the release, so that no record is read and nothing is
    spent. Labels alone tell no shares: their codes count alike. A tree is one term, of all its
    attributes together.

    Parameters
    ----------
    model : fitted private, posterior or residual forest, or tree of labels
    classes : tuple of two classes, optional
        See `effect`.
    """
    posterior, domain = _posterior_of(model)
    found = terms(posterior, *_class_pair(model, classes))
    sizes = {_term_name(domain, term): term.size for term in found}
    return dict(sorted(sizes.items(), key=lambda one: -one[1]))


def _posterior_of(model: ModelVotes) -> tuple[AnyPosterior, Domain]:
    check_is_fitted(model)
    if not hasattr(model, "posterior_"):
        raise TypeError(
            f"model is a {type(model).__name__}, which has no posterior: expected a fitted "
            f"PrivateForestClassifier, PosteriorForestClassifier, ResidualForestClassifier, "
            f"PooledForestClassifier or LabelTreeClassifier."
        )
    return model.posterior_, model.domain_


def _class_pair(model: ModelVotes, asked: tuple[Hashable, Hashable] | None) -> tuple[int, int]:
    known, sorted_ = list(model.domain_.classes), model.classes_.tolist()
    given = (sorted_[-1], sorted_[0]) if asked is None else asked
    found = [known.index(name) for name in given if name in known] if _is_pair(given) else []
    if len(set(found)) != 2:
        raise ValueError(f"classes={short_repr(asked)}: expected two of {short_repr(known)}.")
    return found[0], found[1]


def _is_pair(given: object) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 2


def _term_name(domain: Domain, term: Term) -> Name:
    names = tuple(domain.names[i] for i in term.attributes)
    return names[0] if len(names) == 1 else names


def _why_nothing(
    posterior: AnyPosterior, domain: Domain, places: tuple[int, ...], pair: tuple[int, int]
) -> str:
    """Return why nothing is said of some attributes, and of which there is."""
    tree = posterior.tree if isinstance(posterior, PooledPosterior) else posterior
    cut = tree.partition.attributes if isinstance(tree, LabelPosterior) else ()
    names = short_repr([domain.names[i] for i in cut])
    without = short_repr([domain.names[i] for i in places if i not in cut])
    if isinstance(posterior, LabelPosterior):
        return (
            f"the labels of the tree do not depend on {without}, and nothing else was measured. "
            f"Expected one or more of {names}."
        )
    measured = [_term_name(domain, term) for term in terms(posterior, *pair)]
    known = f"Expected one of {short_repr(measured)}"
    if not cut:
        return f"no table of just these was measured. {known}."
    return (
        f"no table of just these was measured, and the labels of the tree do not depend on "
        f"{without}. {known}, or some of {names} together."
    )
