"""The secure sum over Flower: a ClientApp for each party, a ServerApp for the server.

Flower carries signed messages and nothing else: its own secure aggregation is not used, for it
rounds. Whoever fails to answer in time, or answers with an error, counts as vanished.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mrf_matrix.federated.noisy_answers import contribution
from mrf_matrix.federated.opening import release_of
from mrf_matrix.federated.shares.design import FederatedDesign
from mrf_matrix.federated.sums.messages import ROUNDS, Message, ProtocolError
from mrf_matrix.federated.sums.party import PartyState, check_request, party_step, supplied
from mrf_matrix.federated.sums.party_record import packed_state, unpacked_state
from mrf_matrix.federated.sums.server import ServerState, opened_sum, server_next, server_receive
from mrf_matrix.federated.sums.session import Session
from mrf_matrix.mechanisms import CellCounts, PrivacyLedger, Release

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

NAME = "secure_sum"
RECORD = "message"


@dataclass(frozen=True, eq=False, repr=False)
class LocalParty:
    """What one party has on its own machine, and never sends.

    Attributes
    ----------
    number : int
        Its place among the identities of the session.
    identity : Ed25519PrivateKey
    counts : CellCounts
        Of its records.
    ledger : PrivacyLedger or None
        Best one of a file, `PrivacyLedger.open`: it is charged before the masked vector leaves.
    """

    number: int
    identity: "Ed25519PrivateKey"
    counts: CellCounts
    ledger: PrivacyLedger | None = None


def client_app(design: FederatedDesign, session: Session, load: Callable[[Any], LocalParty]) -> Any:
    """Return the ClientApp of a party.

    Parameters
    ----------
    design : FederatedDesign
        Planned by the party itself: the session's digest tells whether it is everyone's.
    session : Session
        The public configuration, of `session_of`.
    load : callable
        Given Flower's context, returns the `LocalParty`.

    Raises
    ------
    ProtocolError
        If the session is of another design, or the design wants a second sum.
    """
    from flwr.app import ConfigRecord, RecordDict
    from flwr.app import Message as Envelope
    from flwr.clientapp import ClientApp

    _check(design, session)
    app = ClientApp()

    def number(message: object, context: object) -> Any:
        record = ConfigRecord({"number": load(context).number})
        return Envelope(RecordDict({RECORD: record}), reply_to=message)

    def step(message: Any, context: Any) -> Any:
        local, request = load(context), _message_of(message.content[RECORD])
        place = session.digest.hex()
        kept = context.state.get(place)
        state = (
            PartyState(session, local.number, local.identity)
            if kept is None
            else unpacked_state(kept["state"], session, local.number, local.identity)
        )
        check_request(state, request)
        if request.round == "masked":
            made = contribution(design, local.counts, ledger=local.ledger, what=session.label)
            state = supplied(state, made.values)
        state, reply = party_step(state, request)
        context.state[place] = ConfigRecord({"state": packed_state(state)})
        return Envelope(RecordDict({RECORD: ConfigRecord(_fields(reply))}), reply_to=message)

    app.query(NAME)(number)
    app.train(NAME)(step)
    return app


def server_app(
    design: FederatedDesign,
    session: Session,
    load_identity: Callable[[], "Ed25519PrivateKey"],
    sizes: Iterable[int],
    keep: Callable[[Release], None],
    *,
    ledger: PrivacyLedger | None = None,
    seconds: float = 600.0,
    domain: object = None,
) -> Any:
    """Return the ServerApp: four rounds, then ``keep(release)``.

    Parameters
    ----------
    design : FederatedDesign
    session : Session
    load_identity : callable
        Returns the server's Ed25519 private key.
    sizes : iterable of int
        Attribute sizes of the public domain.
    keep : callable
        Given the release, for instance to save it.
    ledger : PrivacyLedger, optional
        Charged before masked vectors are asked for.
    seconds : float
        Longest wait for parties to connect, and for the answers of each round.
    domain : Domain, optional
        Kept in the release.
    """
    from flwr.serverapp import ServerApp

    _check(design, session)
    app = ServerApp()

    def main(grid: object, context: object) -> None:
        nodes = party_nodes(grid, session, seconds)
        state = ServerState(session, load_identity())
        for _ in ROUNDS:
            state, asked = server_next(state)
            if state.now == "masked" and ledger is not None:
                mechanism = design.mechanism
                ledger.charge(
                    mechanism.budget, session.label, mechanism.neighboring, noise="shares"
                )
            for reply in exchange_messages(grid, nodes, asked, seconds):
                try:
                    state = server_receive(state, reply)
                except ProtocolError as error:  # the party counts as vanished
                    print(error)
        total = opened_sum(state)
        keep(
            release_of(
                design, total, tuple(sizes), contributors=len(state.survivors), domain=domain
            )
        )

    app.main()(main)
    return app


def party_nodes(grid: Any, session: Session, seconds: float) -> dict[int, int]:
    """Return which node is which party, once all have come or time is up."""
    from flwr.app import Message as Envelope
    from flwr.app import RecordDict

    end = time.monotonic() + seconds
    nodes = list(grid.get_node_ids())
    while len(nodes) < len(session.members) and time.monotonic() < end:
        time.sleep(1.0)
        nodes = list(grid.get_node_ids())
    asked = [
        Envelope(RecordDict(), dst_node_id=node, message_type=f"query.{NAME}") for node in nodes
    ]
    replies = grid.send_and_receive(asked, timeout=seconds)
    return {
        int(reply.content[RECORD]["number"]): reply.metadata.src_node_id
        for reply in replies
        if not reply.has_error()
    }


def exchange_messages(
    grid: Any, nodes: Mapping[int, int], asked: Mapping[int, Message], seconds: float
) -> list[Message]:
    """Send one round's messages, and return the answers that came in time."""
    from flwr.app import ConfigRecord, RecordDict
    from flwr.app import Message as Envelope

    envelopes = [
        Envelope(
            RecordDict({RECORD: ConfigRecord(_fields(message))}),
            dst_node_id=nodes[number],
            message_type=f"train.{NAME}",
        )
        for number, message in asked.items()
        if number in nodes
    ]
    replies = grid.send_and_receive(envelopes, timeout=seconds)
    return [_message_of(reply.content[RECORD]) for reply in replies if not reply.has_error()]


def _check(design: FederatedDesign, session: Session) -> None:
    if session.design != design.digest:
        raise ProtocolError(
            "session: it is of another design. Expected the strategy, budget, parties and classes "
            "that everyone agreed on."
        )
    if design.removes_excess:
        raise ProtocolError(
            "design: the second sum that takes excess noise off runs in one process only. "
            "Expected remove_excess=False."
        )


def _fields(message: Message) -> dict[str, Any]:
    return dict(vars(message))


def _message_of(record: Mapping[str, Any]) -> Message:
    return Message(**{name: record[name] for name in Message.__dataclass_fields__})
