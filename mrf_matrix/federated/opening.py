"""From an opened sum to a `Release`, like any other but for its law and on whom it rests."""

from collections.abc import Sequence

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
from mrf_matrix.federated.noisy_answers import noise_kind
from mrf_matrix.federated.shares.design import FederatedDesign
from mrf_matrix.federated.sums.messages import ProtocolError
from mrf_matrix.federated.sums.session import Session
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.counts.cells import PublicDomain
from mrf_matrix.mechanisms.measurement.measure import drawn_release


def release_of(
    design: FederatedDesign,
    total: Longs,
    sizes: Sequence[int],
    *,
    contributors: int,
    excess: Longs | None = None,
    revealing: int = 0,
    noise: str = "exact",
    domain: PublicDomain | None = None,
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
        return drawn_release(
            design.released(contributors, revealing),
            answers.reshape(design.shape),
            kind,
            tuple(sizes),
            known | (DOMAIN if domain is None else domain.provenance),
            domain=domain,
            quorum=quorum,
        )


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
    """Return the configuration of the second sum, among those whose vectors are in the first."""
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
