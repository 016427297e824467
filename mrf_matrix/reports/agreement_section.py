"""The model's share of each class among the records of a code, beside that in the counts."""

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mrf_matrix.domain import Domain
from mrf_matrix.posterior import PooledPosterior, ResidualPosterior, SeveralPosterior
from mrf_matrix.posterior.pooled import ResidualEvidence
from mrf_matrix.reports.page import Section

TITLE = "Does the model agree with the counts?"
MOST_SHOWN = 12
BESIDE = "The model is here that of the tables alone, without the tree beside them."
HEADER = ("attribute", "code", "class", "share in the counts", "in the model", "noise", "")


class Compared(NamedTuple):
    """One code and class."""

    attribute: str
    code: str
    label: str
    counted: float
    implied: float
    noise: float

    @property
    def excess(self) -> float:
        """Distance of the shares, in the largest that noise explains."""
        return abs(self.counted - self.implied) / self.noise

    @property
    def row(self) -> tuple[str, ...]:
        """Cells of the table."""
        said = "more than noise" if self.excess > 1 else ""
        shares = f"{self.counted:.3f}", f"{self.implied:.3f}", f"±{self.noise:.3f}"
        return (self.attribute, self.code, self.label, *shares, said)


def agreement_section(model: Any, domain: Domain) -> Section | None:
    """Return the codes whose shares differ most; None where no release compares them.

    Residual forests alone release tables of what their own forecasts miss: beside a tree too, where
    the shares are those of the tables by themselves. Every other kind is fitted to each of its
    tables, so that there is nothing else to compare one with.
    """
    posterior = getattr(model, "posterior_", None)
    beside: tuple[str, ...] = ()
    if isinstance(posterior, PooledPosterior) and isinstance(posterior.tables, ResidualEvidence):
        posterior, beside = posterior.tables.posterior, (BESIDE,)
    if not isinstance(posterior, ResidualPosterior | SeveralPosterior):
        return None
    found = list(_compared(posterior, model.classes_.tolist(), domain))
    if not found:
        return None
    beyond = [one for one in found if one.excess > 1]
    told = f"{len(beyond)} of {len(found)} shares differ by more than noise."
    if not beyond:
        told = f"None of {len(found)} shares differs by more than noise."
    words = (
        *beside,
        "The first table of an attribute tells the share of each class among the records of each "
        "code. The last one tells how far the model's own forecasts for these records were from "
        "it. Both are released already: to compare them costs nothing.",
        f"{told} In 19 of 20 releases noise alone takes none of the differences beyond its bound.",
    )
    shown = sorted(found, key=lambda one: -one.excess)[:MOST_SHOWN]
    return Section(TITLE, words, tuple(one.row for one in shown), HEADER)


def _compared(
    posterior: ResidualPosterior | SeveralPosterior, classes: list[Hashable], domain: Domain
) -> Iterator[Compared]:
    """Return every code of every attribute that was looked at again, for each class's column."""
    labels = classes if len(posterior.columns) > 1 else classes[-1:]
    shares = [one.code_shares for one in posterior.columns]
    n_compared = sum(len(one.counted) for column in shares for one in column)
    for label, column in zip(labels, shares, strict=True):
        for attribute, one in zip(domain.attributes, column, strict=False):
            values = one.counted, one.implied, one.bounds(n_compared)
            if np.isfinite(one.variance):
                for code, *numbers in zip(attribute.labels, *values, strict=True):
                    yield Compared(attribute.name, str(code), str(label), *map(float, numbers))
