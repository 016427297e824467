"""Sources of private tables: records in memory, whose domain is public.

An estimator decides without data what it measures, and asks for its tables then: over the cells
of some attributes, or over the leaves of a public forest. Where the data are is known here, and in
`count_source`, alone. ``domain="from_data"`` reads the domain off the records, which is not
private: it exists for public data and for scikit-learn's own checks, and warns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from mrf_matrix.base.arrays import Codes, Values
from mrf_matrix.base.checks import PrivateValue
from mrf_matrix.base.provenance import NOTHING, Provenance
from mrf_matrix.domain import Domain, DomainOrPath, required_domain
from mrf_matrix.domain.attribute import coarser_codes
from mrf_matrix.domain.columns import checked_table, names_of, plain_array
from mrf_matrix.estimators.count_source import CountedTables, StreamSource, all_features, is_small
from mrf_matrix.estimators.parameters import Records
from mrf_matrix.forests import Forest
from mrf_matrix.forests.ensembles import Ensemble
from mrf_matrix.forests.forest import seen_columns
from mrf_matrix.labels import LabelPlan
from mrf_matrix.mechanisms import CellCounts, count_cells
from mrf_matrix.mechanisms.counts import check_private_allocation
from mrf_matrix.mechanisms.selection import Bits
from mrf_matrix.planning.auto.pooled_plan import PooledPlan
from mrf_matrix.planning.plans.baselines import one_leaf_each
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_kind import Features, TableSource
from mrf_matrix.release.plan import needs_records
from mrf_matrix.residual import ResidualPlan
from mrf_matrix.streams.counting import code_blocks
from strategies.operators import Operator


class PrivateData(Protocol):
    """Private data over a public domain, not yet counted."""

    @property
    def domain(self) -> Domain:
        """The public domain."""

    @property
    def provenance(self) -> Provenance:
        """What all that is released of them rests on: their domain, and what counts carry."""

    def check_records(self, what: str) -> None:
        """Raise if individual records are needed but only counts are available."""

    def tables(self, asked: Sequence[Features], leaves: Forest | None = None) -> TableSource:
        """Return what the tables over the asked attributes are taken from.

        `asked`: positions of the attributes of each table; `leaves`: a public forest over the whole
        domain whose leaves are all that is measured.
        """

    def coarsen(self, coarser: Domain) -> Self:
        """Return the same data over a coarser domain: one of `Domain.coarser`."""


@dataclass(frozen=True, eq=False, repr=False)
class EncodedRecords(PrivateValue):
    """Records in memory, as codes."""

    domain: Domain
    codes: Codes  # (N, d)
    labels: Codes  # (N,)
    kept: dict[type, Any] = field(default_factory=dict)
    """Tables counted last, by their kind: **private**."""
    rests_on: Provenance = NOTHING  # that of counts that they were written out of

    @property
    def provenance(self) -> Provenance:
        return self.domain.provenance | self.rests_on

    @property
    def n_classes(self) -> int:
        return self.domain.n_classes

    def cells(self, features: Features) -> CellCounts:
        """Count the records in the cells of some attributes; those asked for last are kept."""
        sizes = tuple(self.domain.sizes[i] for i in features)
        asked, last = self.kept.get(CellCounts, (None, None))
        if asked != tuple(features):
            last = count_cells(self._seen_codes(features), self.labels, sizes, self.n_classes)
            self.kept[CellCounts] = tuple(features), last
        counts: CellCounts = last
        return counts

    def disjoint_leaves(self, ensemble: Ensemble, coins: np.random.Generator) -> CellCounts:
        """Throw a coin for each record, and count it in one leaf of that tree."""
        leaves = one_leaf_each(ensemble.forest, self._seen_codes(ensemble.features), coins)
        sizes = (ensemble.forest.n_leaves,)
        return count_cells(leaves[:, None], self.labels, sizes, self.n_classes)

    def deal(self, share: float, bits: Bits) -> tuple[Self, Self]:
        """Return two parts of the records: each is in the first with a probability, by a coin."""
        heads = bits.coins(len(self.codes), share)
        first, second = (
            replace(self, codes=self.codes[one], labels=self.labels[one], kept={})
            for one in (heads, ~heads)
        )
        return first, second

    def check(self, measured: Operator) -> None:
        """Accept any: records answer everything."""

    def check_records(self, what: str) -> None:
        """Accept: here they are."""

    def tables(self, asked: Sequence[Features], leaves: Forest | None = None) -> Self:
        return self

    def coarsen(self, coarser: Domain) -> Self:
        """Return the same records over a coarser domain, with codes of their own."""
        if coarser == self.domain:
            return self
        check_private_allocation("coarser codes of the records", self.codes.shape, 4)
        codes = coarser_codes(self.domain.attributes, coarser.attributes, self.codes)
        return replace(self, domain=coarser, codes=codes, kept={})

    def _seen_codes(self, features: Features) -> Codes:
        return seen_columns(self.codes, features)


@dataclass(frozen=True, eq=False, repr=False)
class RecordSource(PrivateValue):
    """Records and classes as the user gave them; they are encoded when tables are asked for."""

    domain: Domain
    X: Records
    y: ArrayLike

    @property
    def provenance(self) -> Provenance:
        return self.domain.provenance

    @classmethod
    def of(
        cls, estimator: BaseEstimator, domain: DomainOrPath, X: Records, y: ArrayLike | None
    ) -> Self:
        return cls(*resolve_domain(estimator, domain, X, y))

    def coarsen(self, coarser: Domain) -> Self:
        return replace(self, domain=coarser)

    def check_records(self, what: str) -> None:
        """Accept: here they are."""

    def tables(self, asked: Sequence[Features], leaves: Forest | None = None) -> EncodedRecords:
        return EncodedRecords(self.domain, *encode(self.domain, self.X, self.y))


def resolve_domain(
    estimator: BaseEstimator, domain: DomainOrPath, X: Records, y: ArrayLike | None
) -> tuple[Domain, Records, ArrayLike]:
    """Return the domain, and X and y ready to be encoded by it.

    Raises ValueError if no domain is given, or the domain names no target classes; TypeError if the
    domain is something else.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    if isinstance(domain, str) and domain == "from_data":
        records, classes = validate_training(estimator, X, y)
        estimator._is_read_off_ = True
        return Domain.from_data(records, classes), records, classes
    known = required_domain(domain)
    _keep_columns(estimator, known, X)
    return known, X, y


def encode(domain: Domain, X: Records, y: ArrayLike) -> tuple[Codes, Codes]:
    """Return codes and labels of the records; refuse no records and unequal lengths."""
    codes = domain.encode(X)
    labels = domain.encode_target(y)
    if len(codes) == 0:
        raise ValueError("X has no records: expected at least one to train on.")
    if len(codes) != len(labels):
        raise ValueError("X and y differ in length: expected one class for each record.")
    return codes, labels


def _keep_columns(estimator: BaseEstimator, domain: Domain, X: Records) -> None:
    """Refuse records without the domain's columns; keep what scikit-learn's estimators keep.

    Columns with names are matched by them, in `fit` and in `predict`, so that their order is no
    matter.
    """
    names = names_of(checked_table(X, domain.names))
    estimator.n_features_in_ = domain.n_attributes
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)


# Records or tables, held while a fit asks --------------------------------------------------------


HELD = 1 << 27
"""Memory limit in bytes for records written out from counts; a fit needs five times as much."""


@dataclass(frozen=True)
class DataCapabilities:
    """Tables and records that private data can serve, known in public."""

    records: bool  # every record by itself, as residuals need
    tables: bool  # tables of any attributes that are asked for later, as screening needs

    @classmethod
    def of(cls, data: PrivateData, n_records: int | None) -> "DataCapabilities":
        """Tell by what kind of data they are and by the public number of records alone.

        Counts and streams are held as records only where their public number says that they fit:
        memory does not grow with what is private.
        """
        if isinstance(data, RecordSource | EncodedRecords):
            return cls(True, True)
        width = 4 * (data.domain.n_attributes + 1)
        if n_records is not None and n_records * width <= HELD:
            return cls(True, True)
        if isinstance(data, CountedTables):
            return cls(False, isinstance(data.whole, CellCounts))
        return cls(False, is_small(data.domain))


ALL = DataCapabilities(True, True)


def hold_data(data: PrivateData, *, records: bool) -> EncodedRecords | CountedTables:
    """Return data that can be asked again: as records, or as counts of all cells.

    `records`: whether every record is needed by itself, see `DataCapabilities`: 4 N (d + 1) bytes.

    Raises TypeError if all that is known are counts of leaves.
    """
    if records and isinstance(data, StreamSource):
        return _read(data)
    found = data.tables([all_features(data.domain)])
    if isinstance(found, EncodedRecords):
        return found
    if not isinstance(found, CountedTables) or not isinstance(found.whole, CellCounts):
        raise needs_records("this forest")
    return _write_out(found, found.whole) if records else found


def _write_out(data: CountedTables, counts: CellCounts) -> EncodedRecords:
    rows, labels = np.nonzero(counts.counts)
    times = counts.counts[rows, labels]
    shape = int(times.sum(dtype=np.float64)), data.domain.n_attributes + 1
    check_private_allocation("records written out", shape, 4)
    codes = np.repeat(counts.codes[rows].astype(np.int32), times, axis=0)
    held = np.repeat(labels.astype(np.int32), times)
    return EncodedRecords(data.domain, codes, held, rests_on=data.provenance)


def _read(data: StreamSource) -> EncodedRecords:
    blocks = list(
        code_blocks(data.batches, data.domain, data.extra, data.progress, data.file_format)
    )
    if not any(len(block[-1]) for block in blocks):
        raise ValueError("batches hold no record: expected at least one record to train on.")
    columns = [np.concatenate(column) for column in zip(*blocks, strict=True)]
    codes = np.stack(columns[:-1], axis=1)
    return EncodedRecords(data.domain, codes, columns[-1])


# What a plan asks of data, before anything is spent -----------------------------------------------


def only_leaves(plan: Plan) -> Forest | None:
    """Return the forest over the whole domain whose leaves are all that is measured, if any."""
    first = plan.parts[0]
    whole = first.ensemble.features == tuple(range(plan.domain.n_attributes))
    by_themselves = not plan.kind.chooses_strategies and not plan.kind.is_disjoint
    return first.forest if len(plan.parts) == 1 and whole and by_themselves else None


@singledispatch
def asked_data(plan: Any, given: PrivateData) -> Any:
    """Return what the questions of a plan are asked of: **private**; nothing is spent by it.

    Of a plan of one's own the table of all attributes, where records are counted as they pass.

    Raises TypeError, ValueError if the data cannot serve it.
    """
    return given.tables([tuple(range(plan.domain.n_attributes))])


@asked_data.register
def _(plan: LabelPlan, given: PrivateData) -> Any:
    return given.tables([plan.attributes])


@asked_data.register
def _(plan: ResidualPlan, given: PrivateData) -> Any:
    given.check_records("a residual forest")
    found = given.tables([])
    if not isinstance(found, EncodedRecords):
        raise needs_records("a residual forest")
    return found


@asked_data.register
def _(plan: Plan, given: PrivateData) -> Any:
    found = given.tables([part.ensemble.features for part in plan.parts], only_leaves(plan))
    for part in plan.parts:
        found.check(part.mechanism.rounded.matrix)
    return found


@asked_data.register
def _(plan: PooledPlan, given: PrivateData) -> Any:
    records = isinstance(plan.tables, ResidualPlan)
    if records and not DataCapabilities.of(given, plan.n_records).records:
        raise needs_records("a tree beside residuals, without a public n_records that fits,")
    found = hold_data(given, records=records)
    if not records:  # what may fail of the tables fails before the tree is paid for
        found.cells(tuple(range(plan.domain.n_attributes)))
    return found


# Records that are public --------------------------------------------------------------------------


T = TypeVar("T")


SAID = {
    "NaN": "Input contains NaN: expected no missing values in X or y.",
    "infinity": "Input contains infinity (inf) or a number that is too large.",
    "inconsistent numbers of samples": "X and y differ in length: expected a class a record.",
    "Reshape your data": (
        "Expected 2D array (records, features). Reshape your data: one record with "
        "X.reshape(1, -1), one feature with X.reshape(-1, 1)."
    ),
    "0 sample(s)": "X is empty: 0 sample(s), while a minimum of 1 is required.",
    # scikit-learn's own test of estimators asks for the shape, with or without a number of records
    "0 feature(s)": "X has 0 feature(s) (shape=(, 0)) while a minimum of 1 is required.",
    "Complex data": "Complex data not supported: expected real numbers or text.",
    "a 1d array": "y should be a 1d array: one class for each record.",
    "Unknown label type": (
        "Unknown label type: expected classes, neither continuous numbers nor several columns."
    ),
}
"""Our words for errors of scikit-learn that hold these, and quote arrays and shapes."""


QUOTED = (
    "features as input",
    "feature names should match",
    "argument must be a string",
    "requires y to be passed",
    "Sparse data",
    "sparse",
)
"""Words of errors that tell of features and types only."""


def validate_training(
    estimator: BaseEstimator, X: Records, y: ArrayLike | None, *, dtype: DTypeLike | None = None
) -> tuple[Values, Values]:
    """Return what scikit-learn's ``validate_data`` returns of records and their classes.

    The estimator keeps number and names of the features.

    Raises ValueError, TypeError where scikit-learn refuses, with a text that shows no value and no
    number of records.
    """
    for name, given in (("X", X), ("y", y)):
        if isinstance(given, np.ndarray):
            plain_array(name, given)  # scikit-learn takes what is under a mask

    def validate() -> tuple[Values, Values]:
        records, classes = validate_data(estimator, X, y, dtype=dtype)
        check_classification_targets(classes)
        return records, classes

    return _reword_errors(validate)


def validate_queries(
    estimator: BaseEstimator, X: Records, *, dtype: DTypeLike | None = None
) -> Values:
    """Return what ``validate_data`` returns of records to predict; see `validate_training`."""
    if isinstance(X, np.ndarray):
        plain_array("X", X)
    return _reword_errors(lambda: validate_data(estimator, X, dtype=dtype, reset=False))


def _reword_errors(checked: Callable[[], T]) -> T:
    try:
        return checked()
    except (ValueError, TypeError) as error:
        kind, said = (TypeError if isinstance(error, TypeError) else ValueError), reword(error)
    raise kind(said)  # outside of the clause: the error that quotes records is not its context


def reword(error: Exception) -> str:
    """Return scikit-learn's text where it tells of features only, our words otherwise."""
    text = str(error)
    if any(mark in text for mark in QUOTED):
        return text
    found = (words for mark, words in SAID.items() if mark in text)
    return next(
        found,
        f"scikit-learn cannot take X or y: expected a table of records, not this "
        f"({type(error).__name__}).",
    )
