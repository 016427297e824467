"""A whole federation in one process: for tests and studies, with drop-outs and delays by seed.

The protocol is the deployed one, keys, masks and signatures included. What is missing is the wire,
and the mistrust: one process sees everything, so nothing here protects anybody.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter
from uuid import uuid4

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mrf_matrix.base.arrays import Longs
from mrf_matrix.base.provenance import NOTHING, Provenance, join
from mrf_matrix.federated.local_party import Kept, LocalParty, party_answer
from mrf_matrix.federated.network import Network, RandomState
from mrf_matrix.federated.noisy_answers import noise_kind
from mrf_matrix.federated.opening import excess_session, release_of, session_of
from mrf_matrix.federated.shares.design import FederatedDesign
from mrf_matrix.federated.sums.messages import (
    ROUNDS,
    BelowThresholdError,
    Message,
    ProtocolError,
    ReplayedMessageError,
)
from mrf_matrix.federated.sums.server import ServerState, opened_sum, server_next, server_receive
from mrf_matrix.mechanisms import BudgetError, CellCounts, LeafCounts, PrivacyLedger, Release
from mrf_matrix.mechanisms.counts.public_domain import PublicDomain
from mrf_matrix.mechanisms.ledger.rules import check_claims


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
    """What all parties keep, and what was sent in the sum under way."""

    answer: Callable[[int, Kept, Message], tuple[Kept, Message]]
    kept: dict[int, Kept]
    up: dict[str, int] = field(default_factory=dict)
    down: dict[str, int] = field(default_factory=dict)
    late: int = 0

    def summed(
        self, server: ServerState, network: Network, charge: Callable[[], None] = lambda: None
    ) -> tuple[Longs, tuple[int, ...]]:
        """Run one secure sum; return it, and who is in it. Charged before vectors are sent."""
        waiting: list[Message] = []
        for stage in ROUNDS:
            server, asked = server_next(server)
            if stage == "masked":
                charge()
            for message in waiting:  # answers of the round before come now, and are refused
                try:
                    server = server_receive(server, message)
                except ReplayedMessageError:
                    self.late += 1
            waiting = []
            for number, message in asked.items():
                if not network.answers(number, stage):
                    continue
                try:
                    self.kept[number], reply = self.answer(number, self.kept[number], message)
                except (ProtocolError, BudgetError):  # whoever cannot answer has vanished
                    continue
                self.down[stage] = max(self.down.get(stage, 0), message.size)
                self.up[stage] = max(self.up.get(stage, 0), reply.size)
                if network.is_late(number, stage):
                    waiting.append(reply)
                    continue
                with suppress(ProtocolError):  # junk is no answer: its sender has vanished
                    server = server_receive(server, reply)
        return opened_sum(server), server.survivors


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
        One for each party, charged before its vector is sent. A party whose ledger refuses takes
        no part, as if it had vanished before the first round.
    server_ledger : PrivacyLedger, optional
        Charged before masked vectors are asked for, and asked before anything is sent.
    label : str
        What is summed, for charges.
    domain : Domain, optional
        Kept in the release.

    Raises
    ------
    BelowThresholdError
        If too few are left. Nothing is opened, and charges stay.
    BudgetError
        If the server's ledger refuses, or those of so many parties that the rest are too few:
        nothing is sent or spent then.
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
    rests_on = join(
        [*(one.provenance for one in parts), NOTHING if domain is None else domain.provenance]
    )
    check_claims(rests_on, server_ledger, *(ledgers or ()))
    net = _without_refusals(design, network or Network(), ledgers, noise, label, rests_on)
    keys = [Ed25519PrivateKey.generate() for _ in range(design.quorum.parties + 1)]
    publics = [key.public_key().public_bytes_raw() for key in keys]
    session = session_of(design, f"{label} {uuid4().hex}", publics[:-1], publics[-1])
    generator = np.random.default_rng(random_state) if noise == "research" else None
    held: Sequence[PrivacyLedger | None] = ledgers or [None] * len(parts)
    local = [
        LocalParty(number, keys[number], *each)
        for number, each in enumerate(zip(parts, held, strict=True))
    ]

    def answer(number: int, kept: Kept, message: Message) -> tuple[Kept, Message]:
        return party_answer(design, session, local[number], kept, message, generator)

    if server_ledger is not None:
        made, kind = design.mechanism, noise_kind(design, noise)
        server_ledger.check(made.budget, label, made.neighboring, noise=kind, rests_on=rests_on)

    def charge() -> None:
        if server_ledger is not None:
            made, kind = design.mechanism, noise_kind(design, noise)
            server_ledger.charge(
                made.budget,
                label,
                made.neighboring,
                noise=kind,
                rests_on=rests_on,
                identity=session.identity_of_charge,
            )

    run = _Run(answer, dict.fromkeys(session.members, Kept()))
    total, survivors = run.summed(ServerState(session, keys[-1]), net, charge)
    up, down = dict(run.up), dict(run.down)
    excess: Longs | None = None
    revealing: tuple[int, ...] = ()
    if design.takes_off(len(survivors)):
        gone = {number: "keys" for number in survivors if not net.answers(number, "excess")}
        second = ServerState(excess_session(session, survivors), keys[-1])
        with suppress(BelowThresholdError):  # then it stays in, and the law says so
            excess, revealing = run.summed(second, replace(net, absent=gone))
    release = release_of(
        design,
        total,
        parts[0].sizes,
        contributors=len(survivors),
        excess=excess,
        revealing=len(revealing),
        noise=noise,
        domain=domain,
        rests_on=rests_on,
        session=session,
    )
    seconds = perf_counter() - started
    return Federation(release, survivors, revealing, up, down, run.late, seconds)


def _without_refusals(
    design: FederatedDesign,
    network: Network,
    ledgers: Sequence[PrivacyLedger] | None,
    noise: str,
    label: str,
    rests_on: Provenance,
) -> Network:
    """Return the network without the parties whose ledgers refuse, before anything is sent.

    Raises BudgetError if the others are too few.
    """
    made, kind = design.mechanism, noise_kind(design, noise)
    refusals: dict[int, BudgetError] = {}
    for number, ledger in enumerate(ledgers or ()):
        try:
            ledger.check(made.budget, label, made.neighboring, noise=kind, rests_on=rests_on)
        except BudgetError as error:
            refusals[number] = error
    left = design.quorum.parties - len(refusals)
    if refusals and left < design.quorum.threshold:
        first = min(refusals)
        raise BudgetError(
            f"the ledgers of {len(refusals)} parties refuse, and {left} parties are left: expected "
            f"at least {design.quorum.threshold}. Nothing was sent or spent. Party {first}: "
            f"{refusals[first]}"
        )
    return replace(network, absent={**network.absent, **dict.fromkeys(refusals, "keys")})
