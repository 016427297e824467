r"""Objectives of a search for a design: functions of a `Plan`, none of which sees data.

``accuracy``
    One minus the expected accuracy under public priors of data (`TargetPrior`;
    `mrf_matrix.planning.search.expected_accuracy`).
``flip``
    Mean probability that noise flips the label of a query's vote, where the leading class is
    ahead by a stated share of the records behind the vote. It counts noise only: among designs
    of different resolution it prefers the coarser.
``error``
    Root-mean-square error of a vote relative to the records behind it, among designs whose
    trees have at least a stated number of leaves (the resolution).
``bound``
    Gao and Zhou's bound on the excess error of a pure forest of k leaves a tree for L-Lipschitz
    class probabilities, plus what noise adds: a plug-in label errs by at most
    :math:`2 E|\tilde\eta - \eta|` more than Bayes' (Devroye, Györfi and Lugosi, 1996, Theorem
    2.2), and the noise in :math:`\tilde\eta` is at most the noise of a vote over its records.

A design's accuracy hangs on the unknown function from cells to classes. A prior says which
functions are plausible before any record is seen, from the domain alone. Here every attribute has
an effect on a hidden score,

.. math::

    s(x) = \sum_i w_i\, g_i(x_i) + \sqrt{\theta} \sum_{(i,j)} w_i w_j\, g_{ij}(x_i, x_j),

with relevances :math:`w_i` that are powers of exponential variables (few attributes matter much),
effects :math:`g_i` that are monotone or wander along the codes, and pair effects :math:`g_{ij}`.
The score is cut into classes of Dirichlet-distributed sizes; a share of the labels is replaced by
random ones. Records are spread evenly over the domain, as those of designed experiments are.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array
from mrf_matrix.domain import Domain
from mrf_matrix.forests import pure_forest_bound
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.search.expected_accuracy import (
    DataPrior,
    SimulatedData,
    accuracies,
    posterior_probabilities,
    residual_probabilities,
)
from mrf_matrix.residual.sequence import ResidualPlan

Codes = NDArray[np.integer[Any]]

REFERENCE_CELLS = 2048  # cells drawn to find where the score is cut


@dataclass(frozen=True)
class TargetPrior:
    """A law of target functions over a domain.

    Parameters
    ----------
    sparsity : float, default=0.5
        Relevances are exponential variables to this power: 0 makes all attributes matter alike, 2
        lets few of them matter.
    interaction : float, default=0.3
        Variance of all pair effects relative to that of the main effects.
    monotone : float, default=0.8
        Probability that an attribute's effect rises or falls along its codes.
    evenness : float, default=1.0
        Gamma shape of the steps of monotone effects: large for straight lines.
    concentration : float, default=2.0
        Dirichlet parameter of the class sizes: large for balanced classes.
    label_noise : float, default=0.05
        Share of labels that are drawn uniformly.

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> target = TargetPrior().draw(Domain.from_sizes([3, 4]), 2, np.random.default_rng(0))
    >>> target(np.array([[0, 0], [2, 3]])).shape
    (2,)
    """

    sparsity: float = 0.5
    interaction: float = 0.3
    monotone: float = 0.8
    evenness: float = 1.0
    concentration: float = 2.0
    label_noise: float = 0.05

    def __post_init__(self) -> None:
        for name, value, most in (
            ("sparsity", self.sparsity, 8.0),
            ("interaction", self.interaction, float("inf")),
            ("monotone", self.monotone, 1.0),
            ("label_noise", self.label_noise, 1.0),
        ):
            if not 0 <= value <= most:
                raise ValueError(f"{name}={value!r}: expected a number from 0 to {most}.")
        for name, value in (("concentration", self.concentration), ("evenness", self.evenness)):
            if not value > 0:
                raise ValueError(f"{name}={value!r}: expected a positive number.")

    def draw(self, domain: Domain, n_classes: int, generator: np.random.Generator) -> "Target":
        """Draw one target function."""
        d = domain.n_attributes
        relevance = generator.exponential(size=d) ** self.sparsity
        relevance /= np.sqrt((relevance**2).sum())
        mains = [
            weight * self._effect(size, generator)
            for weight, size in zip(relevance, domain.sizes, strict=True)
        ]
        pairs = self._pairs(domain, relevance, generator) if d > 1 else ()
        reference = np.stack(
            [generator.integers(0, size, REFERENCE_CELLS) for size in domain.sizes], axis=1
        )
        plain = Target(tuple(mains), pairs, np.zeros(0), np.zeros(1, dtype=np.int64))
        sizes = generator.dirichlet(np.full(n_classes, self.concentration))
        cuts = np.quantile(plain.score(reference), np.clip(np.cumsum(sizes)[:-1], 0, 1))
        return Target(tuple(mains), pairs, cuts, generator.permutation(n_classes))

    def _effect(self, size: int, generator: np.random.Generator) -> Array:
        """Return an attribute's effect along its codes: mean 0, mean square 1."""
        if generator.random() < self.monotone:
            steps = generator.gamma(self.evenness, size=size) * generator.choice([-1, 1])
        else:
            steps = generator.normal(size=size)
        return _standard(np.cumsum(steps))

    def _pairs(
        self, domain: Domain, relevance: Array, generator: np.random.Generator
    ) -> tuple[tuple[int, int, Array], ...]:
        """Draw pair effects: as many as attributes, between relevant ones rather than others."""
        d = domain.n_attributes
        chance = relevance / relevance.sum()
        chosen = {
            tuple(sorted(generator.choice(d, 2, replace=False, p=0.9 * chance + 0.1 / d)))
            for _ in range(d)
        }
        scale = np.sqrt(self.interaction / len(chosen))
        return tuple(
            (i, j, scale * _standard(generator.normal(size=(domain.sizes[i], domain.sizes[j]))))
            for i, j in sorted(chosen)
        )


@dataclass(frozen=True, eq=False)
class Target:
    """A function from cells to classes."""

    mains: tuple[Array, ...]  # (n_i,): effect of every code of every attribute
    pairs: tuple[tuple[int, int, Array], ...]  # (n_i, n_j): effects of pairs
    cuts: Array  # (k - 1,): where the score is cut
    classes: NDArray[np.int64]  # (k,): the class of every interval

    def score(self, codes: Codes) -> Array:
        total = np.zeros(len(codes))
        for effect, column in zip(self.mains, codes.T, strict=True):
            total += effect[column]
        for i, j, effect in self.pairs:
            total += effect[codes[:, i], codes[:, j]]
        return total

    def records(
        self, count: int, generator: np.random.Generator
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Draw records evenly from the domain, shape (count, d), and their classes, (count,)."""
        sizes = [len(effect) for effect in self.mains]
        columns = [generator.integers(0, size, count) for size in sizes]
        codes = np.stack(columns, axis=1).astype(np.int32)
        return codes, self(codes)

    def __call__(self, codes: Codes) -> NDArray[np.int64]:
        return np.asarray(self.classes[np.searchsorted(self.cuts, self.score(codes))])


def _standard(values: Array) -> Array:
    centred = values - values.mean()
    size = np.sqrt((centred**2).mean())
    return np.asarray(centred / size if size > 0 else centred)


class Objective(Protocol):
    """A function of a plan, smaller for better designs; infinite for designs out of question.

    Where it says ``has_floor = True``, the value of a plan without noise is one that no strategy
    is below, up to `tolerance`: designs are then ruled out by it, without a search. Where it says
    ``judges_sequences = True`` it takes a `ResidualPlan` too.
    """

    @property
    def name(self) -> str:
        """What the column of a table is called."""
        ...

    @property
    def tolerance(self) -> float:
        """Differences of its values that mean nothing: the simpler design is taken then."""
        ...

    def __call__(self, plan: Plan) -> float: ...


@dataclass(frozen=True)
class ExpectedLoss:
    """One minus the expected accuracy under public priors.

    Parameters
    ----------
    priors : tuple of DataPrior
        Laws of data, taken with equal weight: smooth functions of evenly spread records
        (`TargetPrior`, the default), your own.
    n_targets : int, default=48
        Laws drawn from each.
    n_queries : int, default=128
        Imagined queries of each law.
    seed : int, default=0
        Seeds targets, imagined records and research noise: equal for all designs, so that they
        are compared on the same imagined data.
    tolerance : float, default=0.01
        Of the designs within a point of the best, the one that measures least is chosen: a prior
        tells them no further apart.
    """

    priors: tuple[DataPrior, ...] = field(default=(TargetPrior(),))
    n_targets: int = 48
    n_queries: int = 128
    seed: int = 0
    name: str = "expected_loss"
    tolerance: float = 0.01
    _imagined: dict[object, SimulatedData] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    has_floor: ClassVar[bool] = True
    judges_sequences: ClassVar[bool] = True

    def __call__(self, plan: Plan | ResidualPlan) -> float:
        check_records_known(self, plan.n_records)
        able = plan.kind.imagined_votings if isinstance(plan, Plan) else ()
        if isinstance(plan, Plan) and plan.voting not in able:
            takes = f"voting={' or '.join(map(repr, able))}, or " * bool(able)
            raise ValueError(
                f"objective {self.name!r} cannot judge voting={plan.voting!r} in "
                f"kind={plan.kind.name!r}: expected {takes}another kind or objective."
            )
        losses = []
        for number, prior in enumerate(self.priors):
            imagined = self._data(plan, number, prior)
            generator = np.random.default_rng([self.seed, number, 2])
            if isinstance(plan, ResidualPlan):
                votes = residual_probabilities(plan, imagined, generator)
            elif not plan.kind.votes_add:
                votes = posterior_probabilities(plan, imagined, generator)
            else:
                votes = imagined.votes(plan, generator)[plan.voting]
            losses.append(1 - accuracies(votes, imagined, generator).mean())
        return float(np.mean(losses))

    def _data(self, plan: Plan | ResidualPlan, number: int, prior: DataPrior) -> SimulatedData:
        """Return what is imagined under a prior, the same for all designs."""
        key = (plan.domain, plan.n_classes, plan.n_records, number)
        if key not in self._imagined:
            self._imagined[key] = SimulatedData(
                plan.domain, plan.n_classes, plan.n_records or 1, prior, self.n_targets,
                self.n_queries, self.seed + 1000 * number,
            )  # fmt: skip
        return self._imagined[key]


@dataclass(frozen=True)
class FlipProbability:
    """Mean flip probability of the votes at a public margin.

    Parameters
    ----------
    share : float, default=0.2
        Margin as a share of the records behind a vote.
    margin : float, optional
        Margin in records, instead.
    rivals : int, default=1
    n_rows : int, default=32
        Queries that it is averaged over.
    """

    share: float = 0.2
    margin: float | None = None
    rivals: int = 1
    n_rows: int = 32
    name: str = "flip_probability"
    tolerance: float = 0.0

    def __call__(self, plan: Plan) -> float:
        share = None if self.margin is not None else self.share
        if share is not None:
            check_records_known(self, plan.n_records)
        rows = list(range(min(self.n_rows, len(plan.queries))))
        found = plan.flip_probabilities(
            self.margin, share=share, of="vote", rivals=self.rivals, rows=rows
        )
        return float(found.mean())


@dataclass(frozen=True)
class RelativeError:
    """Noise of a vote relative to the records behind it, at a fixed resolution.

    Parameters
    ----------
    resolution : float, default=1
        Least number of leaves a tree.
    """

    resolution: float = 1.0
    name: str = "relative_error"
    tolerance: float = 0.0

    def __call__(self, plan: Plan) -> float:
        """Return the relative error; infinite below the resolution."""
        if min(leaves_per_tree(plan)) < self.resolution:
            return float("inf")
        return relative_noise(plan)


@dataclass(frozen=True)
class LipschitzBound:
    """Bias bound for Lipschitz class probabilities plus noise.

    Parameters
    ----------
    lipschitz : float, default=1
        The constant L, for attributes scaled to [0, 1].
    splits : {"uniform", "midpoint"}, default="midpoint"
    form : {"sharp", "published"}, default="sharp"
        See `pure_forest_bound`.
    """

    lipschitz: float = 1.0
    splits: Literal["uniform", "midpoint"] = "midpoint"
    form: Literal["sharp", "published"] = "sharp"
    name: str = "excess_error_bound"
    tolerance: float = 0.0

    has_floor: ClassVar[bool] = True

    def __call__(self, plan: Plan) -> float:
        """Return the bound, at most on the most ensembles' worst tree; it may exceed 1."""
        check_records_known(self, plan.n_records)
        bias = max(
            pure_forest_bound(
                plan.n_records or 1,
                max(2, round(leaves)),
                part.forest.domain.n_attributes,
                self.lipschitz,
                splits=self.splits,
                form=self.form,
            )
            for leaves, part in zip(leaves_per_tree(plan), plan.parts, strict=True)
        )
        return bias + 2 * relative_noise(plan)


@dataclass(frozen=True)
class UserObjective:
    """A user's function of a plan."""

    function: Callable[[Plan], float] = field(repr=False)
    name: str = "objective"
    tolerance: float = 0.0

    judges_sequences: ClassVar[bool] = True

    def __call__(self, plan: Plan) -> float:
        """Return the function's value, which must be a number."""
        value = float(self.function(plan))
        if np.isnan(value):
            raise ValueError("objective returned NaN: expected a number, inf to refuse a design.")
        return value


OBJECTIVES: dict[str, Any] = {
    "accuracy": ExpectedLoss, "flip": FlipProbability, "error": RelativeError,
    "bound": LipschitzBound,
}  # fmt: skip


def as_objective(objective: object, **options: Any) -> Objective:
    """Return an objective by name, or a user's function as one.

    `objective`: "accuracy", "flip", "error" or "bound", or ``f(plan) -> float``, to be minimised;
    `**options`: parameters of the named objective.
    """
    if isinstance(objective, str) and objective in OBJECTIVES:
        made = OBJECTIVES[objective]
        able = [one.name for one in fields(made) if one.init and one.name != "name"]
        if strange := sorted(set(options) - set(able)):
            raise ValueError(
                f"objective_options holds {', '.join(strange)}: expected parameters of objective "
                f"{objective!r}, which are {', '.join(able)}."
            )
        found: Objective = made(**options)
        return found
    if options:
        raise ValueError(
            f"objective_options={options!r} beside {objective!r}: expected them with the name of "
            f"an objective only. Give the object its parameters itself."
        )
    if isinstance(objective, ExpectedLoss | FlipProbability | RelativeError | LipschitzBound):
        return objective
    if callable(objective):
        return UserObjective(objective, getattr(objective, "__name__", "objective"))
    raise ValueError(
        f"objective={objective!r}: expected one of {', '.join(map(repr, OBJECTIVES))}, or a "
        f"function of a plan."
    )


def leaves_per_tree(plan: Plan) -> list[float]:
    forests = [part.ensemble.forest for part in plan.parts]
    return [forest.n_leaves / forest.n_trees for forest in forests]


def relative_noise(plan: Plan) -> float:
    """Return the rms error of a vote over the records behind it (its share, without N)."""
    known = plan if plan.n_records is not None else replace(plan, n_records=1)
    behind = known.vote_records
    ratio = np.sqrt(plan.vote_variances) / np.maximum(behind, 1e-300)
    return float(np.average(ratio, weights=plan.multiplicity))


def check_records_known(objective: Objective, n_records: int | None) -> None:
    """Refuse an objective that weighs noise against records, where their number is not known."""
    weighs = isinstance(objective, ExpectedLoss | LipschitzBound) or (
        isinstance(objective, FlipProbability) and objective.margin is None
    )
    if weighs and n_records is None:
        raise ValueError(
            f"objective {objective.name!r} weighs noise against records: expected n_records=N, "
            f"their public number, or objective='error', which needs none."
        )
