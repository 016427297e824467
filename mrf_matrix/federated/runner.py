"""A whole federation in one process: for tests and studies, with drop-outs and delays by seed.

The protocol is the deployed one, keys, masks and signatures included. What is missing is the wire,
and the mistrust: one process sees everything, so nothing here protects anybody.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.federated.network import Network, RandomState
from mrf_matrix.federated.noisy_answers import Contribution, contribution, noise_kind
from mrf_matrix.federated.opening import excess_session, release_of, revealed_sum, session_of
from mrf_matrix.federated.shares.design import FederatedDesign
from mrf_matrix.federated.sums.messages import (
    ROUNDS,
    BelowThresholdError,
    Message,
    ProtocolError,
    ReplayedMessageError,
)
from mrf_matrix.federated.sums.party import PartyState, party_step, supplied
from mrf_matrix.federated.sums.server import ServerState, opened_sum, server_next, server_receive
from mrf_matrix.federated.sums.session import Session
from mrf_matrix.mechanisms import CellCounts, LeafCounts, PrivacyLedger, Release
from mrf_matrix.mechanisms.counts.public_domain import PublicDomain

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True, eq=False)
class Federation:
    """What a run gave.

    Attributes
    ----------
    release : Release
    contributors : tuple of int
        Parties whose vectors are in the sum.
    revealing : tuple of int
        Parties whose excess noise was taken off.
    bytes_up, bytes_down : mapping of str to int
        Largest message of the first sum in each round, to and from the server.
    late : int
        Answers that came after a round was over, and were refused.
    seconds : float
    """

    release: Release
    contributors: tuple[int, ...]
    revealing: tuple[int, ...]
    bytes_up: Mapping[str, int]
    bytes_down: Mapping[str, int]
    late: int
    seconds: float


@dataclass(eq=False)
class _Run:
    """One sum under way: the states of all, and what was sent."""

    server: ServerState
    parties: dict[int, PartyState]
    network: Network
    up: dict[str, int] = field(default_factory=dict)
    down: dict[str, int] = field(default_factory=dict)
    waiting: list[Message] = field(default_factory=list)
    late: int = 0

    def round(self, stage: str) -> None:
        """Play one round."""
        self.collect(stage, self.ask())

    def ask(self) -> dict[int, Message]:
        """Close the round before, and return what is asked of whom; nothing is sent yet."""
        self.server, asked = server_next(self.server)
        return asked

    def collect(self, stage: str, asked: Mapping[int, Message]) -> None:
        """Have parties answer, and count their answers in."""
        for message in self.waiting:  # answers of the round before come now, and are refused
            try:
                self.server = server_receive(self.server, message)
            except ReplayedMessageError:
                self.late += 1
        self.waiting = []
        for number, message in asked.items():
            if not self.network.answers(number, stage):
                continue
            self.parties[number], reply = party_step(self.parties[number], message)
            self.down[stage] = max(self.down.get(stage, 0), message.size)
            self.up[stage] = max(self.up.get(stage, 0), reply.size)
            if self.network.is_late(number, stage):
                self.waiting.append(reply)
            else:
                self.server = server_receive(self.server, reply)


def run_federation(
    design: FederatedDesign,
    parts: Sequence[CellCounts | LeafCounts],
    *,
    network: Network | None = None,
    noise: str = "exact",
    random_state: RandomState = None,
    ledgers: Sequence[PrivacyLedger] | None = None,
    server_ledger: PrivacyLedger | None = None,
    label: str = "a federated release",
    domain: PublicDomain | None = None,
) -> Federation:
    """Run the whole protocol in this process, and return the release.

    Parameters
    ----------
    design : FederatedDesign
        From `federate`.
    parts : sequence of CellCounts or LeafCounts
        Each party's records, over one domain.
    network : Network, optional
        Nobody vanishes by default.
    noise : {"exact", "research"}, default="exact"
        "research" is seedable and fast, and makes no private release.
    random_state : None, int or numpy Generator
        Seed of research noise.
    ledgers : sequence of PrivacyLedger, optional
        One for each party, charged before its vector is sent.
    server_ledger : PrivacyLedger, optional
        Charged before masked vectors are asked for.
    label : str
        What is summed, for charges.
    domain : Domain, optional
        Kept in the release.

    Raises
    ------
    BelowThresholdError
        If too few are left. Nothing is opened, and charges stay.
    ProtocolError
        If there are not as many parts as parties.

    Examples
    --------
    >>> from mrf_matrix.federated import federate
    >>> from mrf_matrix.mechanisms import PureDP, count_cells
    >>> from strategies.operators import Identity
    >>> design = federate(Identity(3), PureDP(float("inf")), parties=2, n_classes=1)
    >>> left = count_cells(np.array([[0], [2]]), np.zeros(2, int), (3,), 1)
    >>> right = count_cells(np.array([[2]]), np.zeros(1, int), (3,), 1)
    >>> run_federation(design, [left, right]).release.answers.ravel()
    array([1, 0, 2])
    """
    started = perf_counter()
    if len(parts) != design.quorum.parties:
        raise ProtocolError(
            f"parts has {len(parts)} tables: expected {design.quorum.parties}, one for each party."
        )
    net = network or Network()
    keys = _new_identities(design.quorum.parties + 1)
    publics = [key.public_key().public_bytes_raw() for key in keys]
    session = session_of(design, f"{label} {uuid4().hex}", publics[:-1], publics[-1])
    generator = np.random.default_rng(random_state) if noise == "research" else None
    run = _started(session, keys, net)
    run.round("keys")
    run.round("shares")
    asked = run.ask()
    if server_ledger is not None:
        mechanism = design.mechanism
        kind = noise_kind(design, noise)
        server_ledger.charge(mechanism.budget, label, mechanism.neighboring, noise=kind)
    kept: dict[int, NDArray[np.int64]] = {}
    for number in asked:
        if net.answers(number, "masked"):
            ledger = None if ledgers is None else ledgers[number]
            made: Contribution = contribution(
                design,
                parts[number],
                ledger=ledger,
                what=label,
                noise=noise,
                generator=generator,
            )
            run.parties[number] = supplied(run.parties[number], made.values)
            kept[number] = made.layers
    run.collect("masked", asked)
    run.round("unmask")
    total = opened_sum(run.server)
    survivors = run.server.survivors
    excess, revealing = _excess(design, session, keys, net, survivors, kept)
    release = release_of(
        design,
        total,
        parts[0].sizes,
        contributors=len(survivors),
        excess=excess,
        revealing=len(revealing),
        noise=noise,
        domain=domain,
    )
    seconds = perf_counter() - started
    return Federation(release, survivors, revealing, run.up, run.down, run.late, seconds)


def _excess(
    design: FederatedDesign,
    session: Session,
    keys: "Sequence[Ed25519PrivateKey]",
    network: Network,
    survivors: tuple[int, ...],
    kept: Mapping[int, NDArray[np.int64]],
) -> tuple[NDArray[np.int64] | None, tuple[int, ...]]:
    """Run the second sum, of noise that nobody needs; what it does not reach stays in."""
    if not design.takes_off(len(survivors)):
        return None, ()
    second = excess_session(session, survivors)
    gone = {number: "keys" for number in survivors if not network.answers(number, "excess")}
    run = _started(second, keys, replace(network, absent=gone))
    for number in survivors:
        values = revealed_sum(design, kept[number], len(survivors))
        run.parties[number] = supplied(run.parties[number], values)
    try:
        for stage in ROUNDS:
            run.round(stage)
        return opened_sum(run.server), run.server.survivors
    except BelowThresholdError:
        return None, ()


def _started(session: Session, keys: "Sequence[Ed25519PrivateKey]", network: Network) -> _Run:
    parties = {number: PartyState(session, number, keys[number]) for number in session.members}
    return _Run(ServerState(session, keys[-1]), parties, network)


def _new_identities(count: int) -> "list[Ed25519PrivateKey]":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return [Ed25519PrivateKey.generate() for _ in range(count)]
