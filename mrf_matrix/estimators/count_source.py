"""Private tables that are counted elsewhere, or from batches that are read once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from mrf_matrix.base.checks import PrivateValue, short_repr
from mrf_matrix.base.files import PLAIN, FileFormat, checked_format
from mrf_matrix.base.provenance import Provenance, join
from mrf_matrix.domain import Domain, DomainOrPath, required_domain, will_be_read_off
from mrf_matrix.domain.attribute import coarser_codes
from mrf_matrix.forests import Forest
from mrf_matrix.forests.ensembles import Ensemble
from mrf_matrix.mechanisms import CellCounts, LeafCounts
from mrf_matrix.mechanisms.counts import summed_cells
from mrf_matrix.mechanisms.tally import DENSE_ENTRIES
from mrf_matrix.planning.plans.plan_kind import Features
from mrf_matrix.release.plan import needs_records
from mrf_matrix.streams import count_leaves, count_tables
from mrf_matrix.streams.counting import Progress
from strategies.operators import Operator


@dataclass(frozen=True, eq=False, repr=False)
class CountedTables(PrivateValue):
    """Tables that were counted already: elsewhere, or from batches."""

    domain: Domain
    counted: Mapping[Features, CellCounts | LeafCounts]
    """Under the attributes of each; those of the whole domain answer all others."""

    @classmethod
    def of(cls, estimator: BaseEstimator, domain: DomainOrPath, counts: object) -> Self:
        """Check that counts are of the estimator's domain, and hold a record.

        Raises TypeError if they are no counts; ValueError if they were counted over another domain,
        or do not know over which.
        """
        if not isinstance(counts, CellCounts | LeafCounts):
            raise TypeError(
                f"counts is of type {type(counts).__name__}: expected CellCounts, from "
                f"count_stream(batches, domain), or LeafCounts, from count_leaves."
            )
        known = _domain_for_batches(domain)
        if counts.domain is None:
            raise ValueError(
                "counts do not say over which domain they were counted: expected those of "
                "count_stream(batches, domain), or dataclasses.replace(counts, domain=domain)."
            )
        if counts.domain != known:
            raise ValueError(
                "counts were counted over another domain than that of the classifier: expected "
                "one domain, with the same attributes and classes in the same order."
            )
        if not counts.counts.any():
            raise ValueError("counts hold no record: expected at least one record to train on.")
        estimator.n_features_in_ = known.n_attributes
        return cls(known, {all_features(known): counts})

    @property
    def provenance(self) -> Provenance:
        """That of the counts, which may rest on more than their domain."""
        return join(one.provenance for one in self.counted.values())

    @property
    def n_classes(self) -> int:
        return self.domain.n_classes

    @property
    def whole(self) -> CellCounts | LeafCounts | None:
        """The counts over the whole domain, if they are among these."""
        return self.counted.get(all_features(self.domain))

    def cells(self, features: Features) -> CellCounts | LeafCounts:
        """Return the counts over some attributes, summed over the others where need be."""
        if features in self.counted:
            return self.counted[features]
        everything = self.counted[all_features(self.domain)]
        if isinstance(everything, LeafCounts):
            raise ValueError(
                "counts are those of a forest's leaves, and cells of some attributes are asked "
                "for: expected counts of cells, from count_stream."
            )
        return everything.marginal(features)

    def disjoint_leaves(self, ensemble: Ensemble, coins: np.random.Generator) -> CellCounts:
        """Refuse: counts throw no coins."""
        raise needs_records("disjoint data")

    def coarsen(self, coarser: Domain) -> Self:
        """Return the same counts over a coarser domain; refuse counts of the given one's leaves."""
        if coarser == self.domain:
            return self
        counted = {
            features: _coarser_counts(counts, self.domain, coarser, features)
            for features, counts in self.counted.items()
        }
        return replace(self, domain=coarser, counted=counted)

    def check(self, measured: Operator) -> None:
        """Refuse a strategy that measures anything but the leaves, where these were counted."""
        for counts in self.counted.values():
            if isinstance(counts, LeafCounts):
                counts.check_measured(measured)

    def check_records(self, what: str) -> None:
        raise needs_records(what)

    def tables(self, asked: Sequence[Features], leaves: Forest | None = None) -> Self:
        return self


def all_features(domain: Domain) -> Features:
    """Return the positions of all attributes."""
    return tuple(range(domain.n_attributes))


def _coarser_counts(
    counts: CellCounts | LeafCounts, given: Domain, coarser: Domain, features: Features
) -> CellCounts:
    if isinstance(counts, LeafCounts):
        raise needs_records("a forest in which neighbouring codes are counted as one")
    fine, few = ([one.attributes[i] for i in features] for one in (given, coarser))
    known = coarser.of(few)
    cells = summed_cells(coarser_codes(fine, few, counts.codes), counts.counts, known.sizes)
    return CellCounts(*cells, known.sizes, domain=known, _provenance=counts.provenance)


@dataclass(frozen=True, eq=False, repr=False)
class StreamSource(PrivateValue):
    """Batches that are read once, when it is known which tables they are counted into."""

    domain: Domain
    batches: object
    extra: str = "error"
    progress: Progress | None = None
    file_format: FileFormat = PLAIN

    @property
    def provenance(self) -> Provenance:
        return self.domain.provenance

    @classmethod
    def of(
        cls,
        estimator: BaseEstimator,
        domain: DomainOrPath,
        batches: object,
        extra: str,
        progress: Progress | None,
        file_format: FileFormat,
    ) -> Self:
        known = _domain_for_batches(domain)
        estimator.n_features_in_ = known.n_attributes
        return cls(known, batches, extra, progress, checked_format(file_format))

    def coarsen(self, coarser: Domain) -> Self:
        return replace(self, domain=coarser)

    def check_records(self, what: str) -> None:
        raise needs_records(what)

    def tables(self, asked: Sequence[Features], leaves: Forest | None = None) -> CountedTables:
        whole = all_features(self.domain)
        read: dict[str, Any] = {
            "extra": self.extra,
            "progress": self.progress,
            "file_format": self.file_format,
        }
        counted: Mapping[Features, CellCounts | LeafCounts]
        if leaves is not None and not is_small(self.domain):
            counted = {whole: count_leaves(self.batches, leaves, **read)}
        else:
            sets = [whole] if is_small(self.domain) else list(dict.fromkeys(asked))
            found = count_tables(self.batches, self.domain, sets, **read)
            counted = dict(zip(sets, found, strict=True))
        if not next(iter(counted.values())).counts.any():
            raise ValueError("batches hold no record: expected at least one record to train on.")
        return CountedTables(self.domain, counted)


def is_small(domain: Domain) -> bool:
    """Whether counts of all cells are a dense table."""
    return domain.size * domain.n_classes <= DENSE_ENTRIES


def _domain_for_batches(domain: DomainOrPath) -> Domain:
    if will_be_read_off(domain):
        raise ValueError(
            f"domain={short_repr(domain)}: expected a Domain, for counts and batches are made over "
            f"one that is public before any record is read."
        )
    return required_domain(domain)
