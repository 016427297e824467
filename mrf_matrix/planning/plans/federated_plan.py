"""Plans of several parties who share the noise: their messages, and the error by who stays."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import sqrt
from typing import Any

from mrf_matrix.federated.shares.design import FederatedDesign, share_noise
from mrf_matrix.federated.sums.messages import RoundBytes, message_bytes
from mrf_matrix.mechanisms import Quorum, Release
from mrf_matrix.mechanisms.measurement.mechanism import same_measurement
from mrf_matrix.planning.plans.plan import Plan


@dataclass(frozen=True, eq=False, repr=False)
class FederatedPlan(Plan):
    """A plan that several parties measure together: errors are those if all of them contribute.

    Each party runs the `FederatedDesign` of each ensemble, see `designs`.
    """

    @cached_property
    def designs(self) -> tuple[FederatedDesign, ...]:
        """What the parties run for each ensemble."""
        return tuple(part.federation for part in self.parts if part.federation is not None)

    @property
    def quorum(self) -> Quorum:
        """How many parties there are, may vanish, and may collude."""
        return self.designs[0].quorum

    @property
    def rounds(self) -> tuple[tuple[RoundBytes, ...], ...]:
        """What a party sends and receives in each round of each sum, if nobody vanishes.

        For each ensemble one secure sum, or two where excess noise is taken off.
        """
        return tuple(
            message_bytes(design.quorum.parties, design.length)
            for design in self.designs
            for _ in range(1 + design.removes_excess)
        )

    def contributed_by(self, count: int) -> "FederatedPlan":
        """Return the plan with the true law of the noise if so many parties contribute.

        Raises
        ------
        ValueError
            If the sum of so few is not opened.
        """
        pairs = zip(self.parts, self.designs, strict=True)
        parts = (replace(part, mechanism=design.expected(count)) for part, design in pairs)
        return replace(self, parts=tuple(parts))

    def measured(self, releases: Sequence[Release]) -> "FederatedPlan":
        """Return the plan with the laws of the releases that were made of it.

        Raises
        ------
        ValueError
            If there is not one for each part, or one is the release of another measurement.
        """
        if len(releases) != len(self.parts):
            raise ValueError(
                f"releases: expected one for each part of the plan, {len(self.parts)} in all; got "
                f"{len(releases)}."
            )
        pairs = list(zip(self.parts, releases, strict=True))
        for part, release in pairs:
            if not same_measurement(part.mechanism, release.mechanism):
                raise ValueError(
                    "release is of another strategy, budget or neighbouring relation: expected "
                    "one that was measured by this plan."
                )
        parts = (replace(part, mechanism=release.mechanism) for part, release in pairs)
        return replace(self, parts=tuple(parts))

    def to_dict(self, *, bound: bool = False) -> dict[str, Any]:
        """Return the plan's figures as plain values, those of the parties among them."""
        fewest = self.contributed_by(self.quorum.threshold)
        messages = [one for each in self.rounds for one in each]
        parties = {
            **asdict(self.quorum),
            "condition": self.quorum.condition,
            "rms_if_fewest_contribute_over_if_all_do": sqrt(fewest.total / self.total),
            "loss_of_coarse_integers": max(design.ratio for design in self.designs),
            "integers": sum(design.length for design in self.designs),
            "bytes_from_a_party": sum(one.to_server for one in messages),
            "bytes_to_a_party": sum(one.to_party for one in messages),
            "rounds": [[asdict(one) for one in each] for each in self.rounds],
        }
        return {**super().to_dict(bound=bound), "parties": parties}


def quorum_of(
    parties: int | None, dropouts: int, colluders: int, remove_excess: bool
) -> Quorum | None:
    """Return the parties that are planned for, None for a single one; refuse what needs them."""
    if parties is not None:
        return Quorum(parties, dropouts, colluders)
    if dropouts or colluders or remove_excess:
        raise ValueError(
            f"dropouts={dropouts}, colluders={colluders}, remove_excess={remove_excess} without "
            f"parties: expected parties=, how many there are, or none of them."
        )
    return None


def share_plan(plan: Plan, quorum: Quorum, remove_excess: bool = False) -> FederatedPlan:
    """Return a plan with its noise shared among parties.

    Raises ValueError if the parties' tables do not add up to that of all records, as with hard
    votes, or the noise is of a law of one's own; CoarseStrategyError if a strategy has no small
    integers, under pure DP.
    """
    if plan.kind.counts_votes:
        raise ValueError(
            f"parties with voting={plan.voting!r} and kind={plan.kind.name!r}: hard votes of "
            f"several parties' records do not add up. Expected voting='weight', or another kind."
        )
    lighter = [part.lighter(FederatedDesign.largest_scale) for part in plan.parts]
    parts = (
        part.with_parties(
            share_noise(part.mechanism, quorum, plan.n_classes, part.judged_workload, remove_excess)
        )
        for part in lighter
    )
    return FederatedPlan(**{**vars(plan), "parts": tuple(parts)})
