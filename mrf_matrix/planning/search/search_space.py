"""Which designs a search tries: lists of values for each parameter, all combinations."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from mrf_matrix.base.checks import public_records, shown
from mrf_matrix.domain import Domain
from mrf_matrix.planning.kinds.kind import Kind
from mrf_matrix.planning.kinds.words import KINDS, kinds_named
from mrf_matrix.planning.plain_values import key_of
from mrf_matrix.residual.sequence import most_codes, sequence_budget
from mrf_matrix.residual.settings import suits_residual_forest

Space = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]

PARAMETERS = (
    "kind", "max_depth", "n_trees", "n_ensembles", "max_features", "splits", "strategy",
    "allocation", "voting", "budget_shares", "n_blocks", "blocks",
)  # fmt: skip
ANY = "auto"
"""The word for a search over kinds."""

AUTO = ("tables", "matrix")
"""Kinds that a search tries where it is told none: both release a forest for any later query."""

SEQUENCE = "additive"
"""The kind that it tries besides, where `auto_kinds` says so."""

FEW_TREES, MANY_TREES = 16, 128


def default_space(domain: Domain, kind: str) -> dict[str, list[Any]]:
    """Return a space that holds shallow and deep, few and many, for any domain.

    Parameters
    ----------
    domain : Domain
    kind : {"tables", "additive", "matrix", "naive_bayes", "batch", "subsample"}
        "additive" and "naive_bayes" have one design: the space is empty.
    """
    what = searchable_kind(kind)
    if not what.grows_trees:
        return {"n_blocks": ["auto"]} if what.chooses_blocks else {}
    splittable = sum(size > 1 for size in domain.sizes)
    depths = [depth for depth in (1, 2, 3, 4) if depth <= max(1, splittable)]
    return {
        "max_depth": depths,
        "n_trees": [FEW_TREES, MANY_TREES],
        "splits": ["multiway", "binary"],
        "strategy": ["auto"],
        "voting": sorted(what.imagined_votings),
    }


def default_spaces(
    domain: Domain, kind: str, several: Sequence[str] = AUTO
) -> list[dict[str, list[Any]]]:
    """Return the default space of a kind, or of each of several for "auto"."""
    if kind != ANY:
        return [default_space(domain, kind)]
    return [{"kind": [one], **default_space(domain, one)} for one in several]


def auto_kinds(
    domain: Domain, *, epsilon: object, delta: object, rho: object, n_records: int | None
) -> tuple[str, ...]:
    """Return the kinds that a search tries where it is told none, for one claim.

    Residual forests are among them where `suits_residual_forest` says so of the noise that they
    would take, and no attribute has too many codes for one.

    >>> domain = Domain.from_sizes([5] * 8, n_classes=2)
    >>> auto_kinds(domain, epsilon=1, delta=0, rho=None, n_records=20_000)
    ('tables', 'additive', 'matrix')
    >>> auto_kinds(domain, epsilon=1, delta=0, rho=None, n_records=200)
    ('tables', 'matrix')
    """
    records = public_records(n_records)
    if domain.target is None or records is None:
        return AUTO
    d, k = domain.n_attributes, domain.n_classes
    budget = sequence_budget(epsilon, delta, rho, d, records, k)
    suits = suits_residual_forest(records, budget, d, k) and max(domain.sizes) <= most_codes(k)
    return (AUTO[0], SEQUENCE, *AUTO[1:]) if suits else AUTO


def designs_of(space: Space) -> list[dict[str, Any]]:
    """Return all combinations of a space, or of each of several, the last parameter fastest.

    Raises ValueError if a name is unknown, or a list empty or no list.
    """
    if isinstance(space, str) or not isinstance(space, Mapping | Sequence):
        raise ValueError(
            f"space={space!r}: expected lists of values by parameter, or a list of such spaces."
        )
    if not isinstance(space, Mapping):
        return [design for one in space for design in designs_of(one)]
    checked: dict[str, list[Any]] = {}
    for name, values in space.items():
        if name not in PARAMETERS:
            raise ValueError(
                f"space holds {name!r}: expected parameters among {', '.join(PARAMETERS)}."
            )
        listed = list(values) if isinstance(values, list | tuple | range) else None
        if not listed:
            raise ValueError(f"space[{name!r}]={values!r}: expected a list of at least one value.")
        checked[name] = [one.item() if isinstance(one, np.generic) else one for one in listed]
    return [dict(zip(checked, chosen, strict=True)) for chosen in product(*checked.values())]


def searchable_kind(kind: object) -> type[Kind]:
    """Return the kind of a word, whose designs can be compared without data.

    Raises ValueError if there is none, or only one design of it.
    """
    first = kinds_named(kind)[0]
    if first.is_sequence and not first.imagined_votings:
        able = dict.fromkeys(repr(one.name) for one in KINDS if one.imagined_votings)
        raise ValueError(
            f"kind={shown(kind)}: its designs are not compared. Expected 'auto' of a whole search, "
            f"or one of {', '.join(able)}."
        )
    return first


def kind_word(design: Mapping[str, Any], kind: str) -> str:
    """Return the word for a design's kind: its own, that of the search, or matrix."""
    return str(design.get("kind") or (AUTO[-1] if kind == ANY else kind))


def under_laws(designs: list[dict[str, Any]], delta: float, kind: str) -> list[dict[str, Any]]:
    """Return designs of an (ε, δ) claim, each with Gaussian noise of δ and with Laplace noise of ε.

    A residual forest compares both itself.
    """
    if not delta:
        return designs
    return [
        design if law is None else {**design, "delta": law}
        for design in designs
        for law in ((None,) if kind_word(design, kind) == SEQUENCE else (delta, 0.0))
    ]


def structures_of(designs: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group designs that differ in voting only: they share a plan."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for design in designs:
        shared = {name: value for name, value in design.items() if name != "voting"}
        groups.setdefault(key_of(shared), []).append(design)
    return list(groups.values())
