"""A whole federation in one process: for tests and studies, with drop-outs and delays by seed.

The protocol is the deployed one, keys, masks and signatures included. What is missing is the wire,
and the mistrust: one process sees everything, so nothing here protects anybody.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter
from uuid import uuid4

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Longs
from mrf_matrix.base.provenance import NOTHING, Provenance, Spending, join
from mrf_matrix.base.work import DrawRecord, Payment, enter_draw, keep_draws, save_draw
from mrf_matrix.domain import Domain
from mrf_matrix.federated.noisy_answers import (
    CapacityError,
    checked_answers,
    excess_session,
    noise_kind,
    release_of,
    session_of,
)
from mrf_matrix.federated.party import (
    LocalParty,
    PartyRecord,
    check_before_charge,
    party_answer,
)
from mrf_matrix.federated.shares.design import FederatedDesign
from mrf_matrix.federated.sums.messages import (
    ROUNDS,
    SERVER,
    JunkSharesError,
    Message,
    ProtocolError,
    ReplayedMessageError,
    Session,
)
from mrf_matrix.federated.sums.server import ServerState, opened_sum, server_next, server_receive
from mrf_matrix.mechanisms import BudgetError, CellCounts, LeafCounts, PrivacyLedger, Release
from mrf_matrix.mechanisms.ledger.payers import charge_together, find_refusals
from mrf_matrix.mechanisms.ledger.rules import check_claims

RandomState = int | np.random.Generator | None


@dataclass(frozen=True, eq=False)
class Network:
    """Who vanishes when, and how long answers take.

    Attributes
    ----------
    absent : mapping of int to str
        The round from which a party no longer answers, one of `ROUNDS`, or "excess": the second
        sum, in which noise is taken off.
    delays : ndarray of shape (k, 4), optional
        Seconds that each party's answer takes in each round. Nobody waits for them.
    deadline : float
        Answers that take longer are late: they are refused, and the party counts as vanished.
    """

    absent: Mapping[int, str] = field(default_factory=dict)
    delays: NDArray[np.float64] | None = None
    deadline: float = float("inf")

    @classmethod
    def random(
        cls, parties: int, rate: float, random_state: RandomState, mean_delay: float = 0.0
    ) -> "Network":
        """Return a network where each party vanishes with a probability, in a random round.

        Delays are exponential of a mean, and the deadline is ten times it.
        """
        generator = np.random.default_rng(random_state)
        gone = np.flatnonzero(generator.random(parties) < rate).tolist()
        rounds = generator.integers(len(ROUNDS), size=len(gone)).tolist()
        delays = generator.exponential(mean_delay, (parties, len(ROUNDS))) if mean_delay else None
        absent = {party: ROUNDS[place] for party, place in zip(gone, rounds, strict=True)}
        return cls(absent, delays, 10 * mean_delay if mean_delay else float("inf"))

    def answers(self, party: int, stage: str) -> bool:
        """Tell whether a party still answers in a round."""
        order = (*ROUNDS, "excess")
        return party not in self.absent or order.index(self.absent[party]) > order.index(stage)

    def is_late(self, party: int, stage: str) -> bool:
        """Tell whether a party's answer comes after the deadline."""
        place = ROUNDS.index(stage)
        return self.delays is not None and bool(self.delays[party, place] > self.deadline)


Charging = Callable[[Mapping[int, Message]], set[int]]


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

    answer: Callable[[int, PartyRecord, Message], tuple[PartyRecord, Message]]
    kept: dict[int, PartyRecord]
    up: dict[str, int] = field(default_factory=dict)
    down: dict[str, int] = field(default_factory=dict)
    late: int = 0

    def run_sum(
        self, server: ServerState, network: Network, charge: Charging = lambda asked: set(asked)
    ) -> tuple[Longs, tuple[int, ...]]:
        """Run one secure sum; return it, and who is in it.

        `charge`: given whom the server asks for a vector and who answers; returns who does pay.
        """
        waiting: list[Message] = []
        for stage in ROUNDS:
            server, asked = server_next(server)
            for message in waiting:  # answers of the round before come now, and are refused
                with suppress(ReplayedMessageError):
                    server = server_receive(server, message)
                    continue
                self.late += 1
            waiting = []
            asked = {one: asked[one] for one in asked if network.answers(one, stage)}
            paying = charge(asked) if stage == "masked" else set(asked)
            for number in sorted(paying):
                try:
                    self.kept[number], reply = self.answer(number, self.kept[number], asked[number])
                except ProtocolError:  # whoever cannot answer has vanished
                    continue
                self.down[stage] = max(self.down.get(stage, 0), asked[number].size)
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
    domain: Domain | None = None,
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
        One for each party. A party whose ledger refuses takes no part, as if it had vanished
        before the first round. The others are charged with the server before the first vector is
        sent: all of them, or nobody where too few could pay.
    server_ledger : PrivacyLedger, optional
        Asked before anything is sent, and charged with the parties'.
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
    known = [design.provenance, NOTHING if domain is None else domain.provenance]
    rests_on = join([*known, *(one.provenance for one in parts)])
    check_claims(rests_on, server_ledger, *(ledgers or ()))
    payers = _Payers(design, tuple(ledgers or ()), server_ledger, noise, label, rests_on)
    net = payers.without_refusals(network or Network())
    generator = np.random.default_rng(random_state) if noise == "research" else None
    with keep_draws() as record:
        while True:
            try:
                found = _run_once(design, parts, payers, net, generator, record, domain)
            except JunkSharesError as error:  # nothing was charged: once more, without the sender
                net = _without_parties(net, [error.sender])
                continue
            return replace(found, seconds=perf_counter() - started)


def _run_once(
    design: FederatedDesign,
    parts: Sequence[CellCounts | LeafCounts],
    payers: "_Payers",
    net: Network,
    generator: np.random.Generator | None,
    record: DrawRecord,
    domain: Domain | None,
) -> Federation:
    keys = [Ed25519PrivateKey.generate() for _ in range(design.quorum.parties + 1)]
    publics = [key.public_key().public_bytes_raw() for key in keys]
    session = session_of(design, f"{payers.label} {uuid4().hex}", publics[:-1], publics[-1])
    local = [LocalParty(number, keys[number], part) for number, part in enumerate(parts)]

    def answer(number: int, kept: PartyRecord, message: Message) -> tuple[PartyRecord, Message]:
        return party_answer(design, session, local[number], kept, message, generator)

    def make_release(
        found: "tuple[Longs, tuple[int, ...], Longs | None, tuple[int, ...]]",
    ) -> Release:
        total, contributing, excess, revealing = found
        return release_of(
            design, total, parts[0].sizes, contributors=len(contributing), excess=excess,
            revealing=len(revealing), noise=payers.noise, domain=domain, rests_on=payers.rests_on,
            session=session,
        )  # fmt: skip

    def charge(asked: Mapping[int, Message]) -> set[int]:
        able = {}
        for number, message in asked.items():
            with suppress(CapacityError):
                check_before_charge(design, session, local[number], run.kept[number], message)
                able[number] = message
        payers.check_enough(able, asked, local)
        own = payers.spending(session)
        record.payments.append(Payment(own, payers.rests_on, payers.has_charged(own.identity)))
        return payers.charge(own, list(able))

    run = _Run(answer, dict.fromkeys(session.members, PartyRecord()))
    draw = enter_draw(make_release)
    total, survivors = run.run_sum(ServerState(session, keys[-1]), net, charge)
    draw.outcome = total, survivors, None, ()
    up, down = dict(run.up), dict(run.down)
    if design.takes_off(len(survivors)):
        gone = {number: "keys" for number in survivors if not net.answers(number, "excess")}
        second = ServerState(excess_session(session, survivors), keys[-1])
        with suppress(ProtocolError):  # then it stays in, and the law says so
            draw.outcome = total, survivors, *run.run_sum(second, replace(net, absent=gone))
    save_draw(draw)
    release: Release = make_release(draw.outcome)
    return Federation(release, survivors, draw.outcome[3], up, down, run.late, 0.0)


@dataclass(frozen=True, eq=False)
class _Payers:
    """The ledgers of a federation: all of whoever takes part are charged together, or none."""

    design: FederatedDesign
    ledgers: tuple[PrivacyLedger, ...]  # of every party, or of none
    server: PrivacyLedger | None
    noise: str
    label: str
    rests_on: Provenance

    def spending(self, session: Session | None = None) -> Spending:
        made, kind = self.design.mechanism, noise_kind(self.design, self.noise)
        own = Spending(made.budget, made.neighboring, kind, self.label)
        return own if session is None else replace(own, identity=session.identity_of_charge)

    def find_refusals(self, own: Spending, parties: Iterable[int]) -> dict[int, ValueError]:
        """Return which parties' ledgers refuse, after the server's.

        Raises BudgetError, LedgerError if the server's does.
        """
        held = {} if self.server is None else {SERVER: self.server}
        held |= {number: self.ledgers[number] for number in parties if self.ledgers}
        found = find_refusals(held, own, rests_on=self.rests_on)
        if SERVER in found:
            raise found[SERVER]
        return found

    def without_refusals(self, network: Network) -> Network:
        """Return the network without the parties whose ledgers refuse, before anything is sent.

        Raises BudgetError if the others are too few.
        """
        found = self.find_refusals(self.spending(), range(self.design.quorum.parties))
        self._check_left(self.design.quorum.parties - len(found), found)
        return _without_parties(network, found)

    def charge(self, own: Spending, parties: Sequence[int]) -> set[int]:
        """Charge all parties that can pay, and the server, or nobody; return who paid."""
        found = self.find_refusals(own, parties)
        paying = [number for number in parties if number not in found]
        self._check_left(len(paying), found)
        held = [] if self.server is None else [self.server]
        held += [self.ledgers[number] for number in paying if self.ledgers]
        charge_together(held, own, rests_on=self.rests_on)
        return set(paying)

    def has_charged(self, identity: str) -> Callable[[], bool | None]:
        """Return a function that tells whether a charge was made; None without ledgers."""
        held = [*self.ledgers, *([] if self.server is None else [self.server])]
        return lambda: any(one.has_charged(identity) for one in held) if held else None

    def check_enough(
        self, able: Collection[int], asked: Iterable[int], local: Sequence[LocalParty]
    ) -> None:
        """Refuse a sum in which the integers of too many parties would not fit."""
        if len(able) < self.design.quorum.threshold:
            for number in asked:  # whoever is unable says why
                checked_answers(self.design, local[number].counts)

    def _check_left(self, left: int, refusals: Mapping[int, ValueError]) -> None:
        if refusals and left < self.design.quorum.threshold:
            first = min(refusals)
            raise BudgetError(
                f"the ledgers of {len(refusals)} parties refuse, and {left} parties are left: "
                f"expected at least {self.design.quorum.threshold}. Nothing was spent. Party "
                f"{first}: {refusals[first]}"
            ) from refusals[first]


def _without_parties(network: Network, parties: Iterable[int]) -> Network:
    return replace(network, absent={**network.absent, **dict.fromkeys(parties, "keys")})
