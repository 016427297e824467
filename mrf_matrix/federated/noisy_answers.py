"""What one party adds to the sum, with its share of the noise, and the Release of the sum."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Any, ClassVar

import numpy as np

from mrf_matrix.base.arrays import Longs
from mrf_matrix.base.provenance import (
    DOMAIN,
    NOTHING,
    STRATEGY,
    Provenance,
    Spending,
    new_identity,
    parts_of,
)
from mrf_matrix.domain import Domain
from mrf_matrix.federated.shares.design import FederatedDesign
from mrf_matrix.federated.sums.messages import ProtocolError, ReplayedMessageError, Session
from mrf_matrix.mechanisms import (
    CellCounts,
    LeafCounts,
    Mechanism,
    NoiseLaw,
    PrivacyLedger,
    Release,
    SharedDiscreteGaussian,
    SharedDiscreteLaplace,
)
from mrf_matrix.mechanisms.ledger.rules import check_claims
from mrf_matrix.mechanisms.measurement.release import Noise, release_maker
from mrf_matrix.release.curator import Live, StrategyStep

MODULUS_BITS = 64
"""The sum and who is in it; the sum of layers that are taken off, if any, and who is in that."""

TAIL_BITS = 40
"""The sum leaves 64 bits with a probability below 2**-40, over all its integers."""


class CapacityError(ProtocolError, OverflowError):
    """A party's integers are too large for a sum mod 2**64. Nothing was sent or charged."""


@dataclass(frozen=True, eq=False, repr=False)
class Contribution:
    """One party's noisy integers: **private** until they are masked and summed.

    Attributes
    ----------
    values : ndarray of int64, shape (length,)
        Answers plus all layers of noise.
    layers : ndarray of int64, shape (n_layers - 1, length)
        The layers that may be taken off again.
    """

    values: Longs
    layers: Longs

    def __repr__(self) -> str:
        return "Contribution(private)"


def contribution(
    design: FederatedDesign,
    counts: CellCounts | LeafCounts,
    *,
    ledger: PrivacyLedger | None = None,
    what: str = "a federated release",
    identity: str | None = None,
    noise: str = "exact",
    generator: np.random.Generator | None = None,
) -> Contribution:
    """Return one party's answers with its noise, charged to its ledger.

    Everything is checked before the charge, and charged before noise is drawn. A charge is never
    taken back: a sum that is not opened has used the noise up all the same.

    Parameters
    ----------
    design : FederatedDesign
    counts : CellCounts or LeafCounts
        Of this party's records; none is as good as any.
    ledger : PrivacyLedger, optional
        Of this party.
    what : str
        What the charge says.
    identity : str, optional
        By which the release knows the charge, see `Session.identity_of_charge`.
    noise : {"exact", "research"}, default="exact"
    generator : numpy Generator, optional
        Draws research noise; refused with exact noise.

    Raises
    ------
    CapacityError
        If the sum might leave 64 bits.
    ValueError
        If the counts have other classes than the design, or a generator comes with exact noise.
    BudgetError
        If the ledger does not cover it.
    ReplayedMessageError
        If the ledger was charged under this identity already.
    """
    if noise not in ("exact", "research") or (generator is None) != (noise == "exact"):
        raise ValueError(
            f"noise={noise!r} with generator={generator!r}: expected 'exact' without a generator, "
            f"or 'research' with one."
        )
    rests_on = counts.provenance | design.provenance
    check_claims(rests_on, ledger)

    @contextmanager
    def charge() -> Iterator[None]:
        check_charged_once(ledger, identity, what)
        if ledger is not None:
            kind = noise_kind(design, noise)
            ledger.charge(
                design.budget, what, design.neighboring,
                noise=kind, rests_on=rests_on, identity=identity,
            )  # fmt: skip
        yield

    plan: Any = design
    asked: Any = OwnCounts()
    with PartyCurator(plan, counts, charge, noise, generator) as curator:
        made: Any = curator.measure(*design.steps, asked)
    found: Contribution = made
    return found


class OwnCounts:
    """All counts of a party: one record is in one of them."""

    kind: ClassVar[str] = StrategyStep.kind
    n_cells: ClassVar[int] = 0  # the step knows its strategy

    def counts(self, data: CellCounts | LeafCounts) -> CellCounts | LeafCounts:
        return data


class PartyCurator(Live):
    """A party's curator of its own records, which draws its share of the noise.

    What it took is no release: it stays with the party until it is masked and summed.
    """

    def _exact_answers(self, mechanism: Mechanism, asked: Any) -> Longs:
        design: Any = self.plan
        return checked_answers(design, asked.counts(self._visible_data()))

    def _draw_release(self, mechanism: Mechanism, exact: Longs) -> Any:
        design: Any = self.plan
        drawn = [_draw(law, exact.shape, self._stream) for law in design.layers]
        layers = np.stack([part.ravel() for part in drawn])
        return Contribution(exact.ravel() + layers.sum(axis=0), layers[1:])


def check_charged_once(ledger: PrivacyLedger | None, identity: str | None, what: str) -> None:
    """Refuse a sum that a ledger was charged for: two releases of one identity count as one.

    Raises ReplayedMessageError.
    """
    if ledger is not None and identity is not None and ledger.has_charged(identity):
        raise ReplayedMessageError(
            f"the ledger was charged for {what!r} already: expected a session that was not run "
            f"before, under a label of its own."
        )


def checked_answers(design: FederatedDesign, counts: CellCounts | LeafCounts) -> Longs:
    """Return a party's exact answers: **private**; or refuse them, before anything is charged.

    Raises CapacityError, ValueError as `contribution`.
    """
    if counts.n_classes != design.n_classes:
        raise ValueError(
            f"counts have {counts.n_classes} classes: expected {design.n_classes}, the design's."
        )
    answers = counts.answers(design.mechanism.rounded.matrix)
    _check_capacity(design, answers)
    return answers


def noise_kind(design: FederatedDesign, noise: str) -> Noise:
    if design.mechanism.budget.is_infinite:
        return "none"
    return "shares" if noise == "exact" else "research"


def _draw(law: NoiseLaw, shape: tuple[int, ...], generator: np.random.Generator | None) -> Longs:
    if generator is not None:
        return law.research(shape, generator)
    return law.exact(np.zeros(shape, dtype=np.int64))


def capacity(design: FederatedDesign) -> int:
    """Return the largest integer of one party for which no sum leaves signed 64 bits.

    The tail of the noise is taken off first: by Chernoff's bound, over all integers of the
    release, it is passed with a probability below ``2**-40``.
    """
    law = design.law()
    room = (1 << (MODULUS_BITS - 1)) - 1 - tail(law, design.length)
    return max(0, room // design.quorum.parties)


def tail(law: NoiseLaw, count: int) -> int:
    """Return what the largest of so many draws passes with a probability below ``2**-40``.

    For sums of discrete Gaussians, ``P(|Z| > x) <= 2 exp(-x²/2nv)``. For shape r of discrete
    Laplace noise ``E exp(Z/2t) = ((1-q)² / (1-√q)(1-q√q))^r``, so
    ``P(|Z| > x) <= 2 exp(-x/2t) E exp(Z/2t)``.
    """
    rare = TAIL_BITS * log(2) + log(2 * count)
    scale = float(law.scale)
    if isinstance(law, SharedDiscreteGaussian):
        return int(sqrt(2 * law.parties * rare) * scale) + 1
    if isinstance(law, SharedDiscreteLaplace):
        root = exp(-1 / (2 * scale))
        moment = (1 - root**2) ** 2 / ((1 - root) * (1 - root**3))
        return int(2 * scale * (rare + float(law.shape) * log(moment))) + 1
    return 0


def _check_capacity(design: FederatedDesign, answers: Longs) -> None:
    most = capacity(design)
    if answers.size and max(int(answers.max()), -int(answers.min())) > most:
        raise CapacityError(
            f"an answer of this party exceeds {most}, its part of 64 bits among "
            f"{design.quorum.parties} parties, so the sum might wrap around. Nothing was sent or "
            f"charged. Expected a strategy of smaller integers."
        )


def release_of(
    design: FederatedDesign,
    total: Longs,
    sizes: Sequence[int],
    *,
    contributors: int,
    excess: Longs | None = None,
    revealing: int = 0,
    noise: str = "exact",
    domain: Domain | None = None,
    rests_on: Provenance = NOTHING,
    session: Session | None = None,
) -> Release:
    """Return the release of an opened sum.

    Parameters
    ----------
    design : FederatedDesign
    total : ndarray of int64, shape (design.length,)
        From `opened_sum`.
    sizes : sequence of int
        Attribute sizes of the public domain.
    contributors : int
        Parties whose vectors are in the sum.
    excess : ndarray of int64, shape (design.length,), optional
        The opened sum of layers that are taken off.
    revealing : int, default=0
        Parties whose layers are in it.
    noise : {"exact", "research"}, default="exact"
        What the parties drew.
    domain : Domain, optional
        Kept in the release.
    rests_on : Provenance, optional
        That of the parties' counts, as far as it is known.
    session : Session, optional
        That of the sum: ledgers that were charged for it know the release.

    Raises
    ------
    ProtocolError
        If a sum has another length than the design.
    ValueError
        If so few contributions may not be opened.
    """
    parts = [total] if excess is None else [total, excess]
    for part in parts:
        if part.shape != (design.length,):
            raise ProtocolError(
                f"a sum of shape {part.shape}: expected ({design.length},), the design's."
            )
    answers = total if excess is None else total - excess
    kind = noise_kind(design, noise)
    made, quorum = design.mechanism, design.quorum if kind == "shares" else None
    spending = Spending(
        made.budget,
        made.neighboring,
        kind,
        "a federated release" if session is None else session.label,
        "" if quorum is None else quorum.condition,
        new_identity() if session is None else session.identity_of_charge,
    )
    known = STRATEGY | design.provenance | rests_on
    with parts_of(spending):
        make = release_maker(
            design.released(contributors, revealing),
            kind,
            tuple(sizes),
            known | (DOMAIN if domain is None else domain.provenance),
            domain=domain,
            quorum=quorum,
        )
        return make(answers.reshape(design.shape))


def session_of(
    design: FederatedDesign, label: str, identities: Sequence[bytes], server: bytes
) -> Session:
    """Return the public configuration of a design's sum.

    Parameters
    ----------
    design : FederatedDesign
    label : str
        A name that is used once.
    identities : sequence of bytes
        Ed25519 public key of each party, in order.
    server : bytes
        Ed25519 public key of the server.
    """
    return Session(
        label=label,
        members=tuple(range(design.quorum.parties)),
        identities=tuple(identities),
        server=server,
        threshold=design.quorum.threshold,
        length=design.length,
        design=design.digest,
    )


def excess_session(session: Session, survivors: Sequence[int]) -> Session:
    return Session(
        label=f"{session.label}, excess noise",
        members=tuple(survivors),
        identities=tuple(session.identity(number) for number in survivors),
        server=session.server,
        threshold=session.threshold,
        length=session.length,
        design=session.digest,
    )


def revealed_sum(design: FederatedDesign, layers: Longs, contributors: int) -> Longs:
    """Return the sum of a party's layers that are taken off when so many contributed."""
    part = design.revealed_layers(contributors)
    return np.asarray(layers[part.start - 1 :].sum(axis=0, dtype=np.int64))
