r"""What a search for a design minimises: functions of a `Plan`, none of which sees data.

``accuracy``
    One minus the expected accuracy under public priors of data
    (`mrf_matrix.planning.accuracy.expected_accuracy`).
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
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from mrf_matrix.forests import pure_forest_bound
from mrf_matrix.planning.accuracy.expected_accuracy import (
    DataPrior,
    ImaginedData,
    accuracies,
    posterior_probabilities,
    residual_probabilities,
)
from mrf_matrix.planning.accuracy.target_prior import TargetPrior
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.residual.sequence import ResidualPlan


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

    def __call__(self, plan: Plan) -> float:
        """Return the value of a plan."""
        ...


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
    _imagined: dict[object, ImaginedData] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    has_floor: ClassVar[bool] = True
    judges_sequences: ClassVar[bool] = True

    def __call__(self, plan: Plan | ResidualPlan) -> float:
        """Return the expected share of wrong labels."""
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

    def _data(self, plan: Plan | ResidualPlan, number: int, prior: DataPrior) -> ImaginedData:
        """Return what is imagined under a prior, the same for all designs."""
        key = (plan.domain, plan.n_classes, plan.n_records, number)
        if key not in self._imagined:
            self._imagined[key] = ImaginedData(
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
        """Return the mean flip probability."""
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


def as_objective(objective: object, **options: Any) -> Objective:
    """Return an objective by name, or a user's function as one.

    `objective`: "accuracy", "flip", "error" or "bound", or ``f(plan) -> float``, to be minimised;
    `**options`: parameters of the named objective.
    """
    kinds: dict[str, Any] = {
        "accuracy": ExpectedLoss, "flip": FlipProbability, "error": RelativeError,
        "bound": LipschitzBound,
    }  # fmt: skip
    if isinstance(objective, str) and objective in kinds:
        able = [one.name for one in fields(kinds[objective]) if one.init and one.name != "name"]
        if strange := sorted(set(options) - set(able)):
            raise ValueError(
                f"objective_options holds {', '.join(strange)}: expected parameters of objective "
                f"{objective!r}, which are {', '.join(able)}."
            )
        found: Objective = kinds[objective](**options)
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
        f"objective={objective!r}: expected one of {', '.join(map(repr, kinds))}, or a "
        f"function of a plan."
    )


def leaves_per_tree(plan: Plan) -> list[float]:
    """Return the mean number of leaves of a tree of each ensemble."""
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
