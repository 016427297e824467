"""The secure sum over Flower: a ClientApp for each party, a ServerApp for the server.

Flower carries signed messages and nothing else: its own secure aggregation is not used, for it
rounds. Whoever fails to answer in time, or answers with an error, counts as vanished.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from mrf_matrix.base import escape_controls
from mrf_matrix.base.arrays import Longs
from mrf_matrix.base.provenance import NOTHING
from mrf_matrix.base.work import enter_draw, keep_draws
from mrf_matrix.domain import Domain
from mrf_matrix.federated.noisy_answers import (
    check_charged_once,
    excess_session,
    noise_kind,
    release_of,
)
from mrf_matrix.federated.party import LocalParty, PartyRecord, party_answer
from mrf_matrix.federated.shares.design import FederatedDesign
from mrf_matrix.federated.sums.messages import ROUNDS, Message, ProtocolError, Session
from mrf_matrix.federated.sums.server import ServerState, opened_sum, server_next, server_receive
from mrf_matrix.mechanisms import PrivacyLedger, Release
from mrf_matrix.mechanisms.ledger.rules import check_claims

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from flwr.app import ConfigRecord, Context
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

NAME = "secure_sum"
RECORD = "message"


def client_app(
    design: FederatedDesign, session: Session, load: "Callable[[Context], LocalParty]"
) -> "ClientApp":
    """Return the ClientApp of a party.

    `design`: planned by the party itself: the session's digest tells whether it is everyone's;
    `session`: the public configuration, of `session_of`; `load`: given Flower's context, returns
    the `LocalParty`.

    Raises ProtocolError if the session is of another design.
    """
    from flwr.app import ConfigRecord, RecordDict
    from flwr.app import Message as Envelope
    from flwr.clientapp import ClientApp

    _check(design, session)
    app = ClientApp()

    def number(message: Envelope, context: "Context") -> Envelope:
        record = ConfigRecord({"number": load(context).number})
        return Envelope(RecordDict({RECORD: record}), reply_to=message)

    def step(message: Envelope, context: "Context") -> Envelope:
        request, place = _message_of(message.content[RECORD]), session.digest.hex()
        kept = PartyRecord(**context.state.get(place, {}))
        kept, reply = party_answer(design, session, load(context), kept, request)
        context.state[place] = ConfigRecord(dict(vars(kept)))
        return Envelope(RecordDict({RECORD: ConfigRecord(dict(vars(reply)))}), reply_to=message)

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
    domain: Domain | None = None,
) -> "ServerApp":
    """Return the ServerApp: four rounds, four more to take excess noise off, ``keep(release)``.

    `load_identity`: returns the server's Ed25519 private key; `sizes`: attribute sizes of the
    public domain; `keep`: given the release, for instance to save it; `ledger`: charged before
    masked vectors are asked for; `seconds`: longest wait for parties to connect, and for the
    answers of each round; `domain`: kept in the release.
    """
    from flwr.serverapp import ServerApp

    _check(design, session)
    check_claims(NOTHING if domain is None else domain.provenance, ledger)
    app, shape = ServerApp(), tuple(sizes)

    def main(grid: "Grid", context: "Context") -> None:
        nodes = party_nodes(grid, session, seconds)
        identity = load_identity()
        charge = partial(_charge, design, session, ledger)

        def make_release(
            found: "tuple[Longs, tuple[int, ...], Longs | None, tuple[int, ...]]",
        ) -> Release:
            total, contributing, excess, revealing = found
            return release_of(
                design, total, shape, contributors=len(contributing), excess=excess,
                revealing=len(revealing), domain=domain, session=session,
            )  # fmt: skip

        with keep_draws():
            draw = enter_draw(make_release)
            total, survivors = _run_sum(
                grid, nodes, ServerState(session, identity), seconds, charge
            )
            draw.outcome = total, survivors, None, ()
            if design.takes_off(len(survivors)):
                second = ServerState(excess_session(session, survivors), identity)
                with suppress(ProtocolError):  # then it stays in, and the law says so
                    draw.outcome = total, survivors, *_run_sum(grid, nodes, second, seconds)
            keep(make_release(draw.outcome))

    app.main()(main)
    return app


def _run_sum(
    grid: "Grid",
    nodes: Mapping[int, Sequence[int]],
    state: ServerState,
    seconds: float,
    charge: Callable[[], None] = lambda: None,
) -> tuple[Longs, tuple[int, ...]]:
    """Run one secure sum; return it, and who is in it.

    `charge`: called before vectors are asked for.
    """
    for _ in ROUNDS:
        state, asked = server_next(state)
        if state.now == "masked":
            charge()
        for reply in exchange_messages(grid, nodes, asked, seconds):
            try:
                state = server_receive(state, reply)
            except ProtocolError as error:  # the party counts as vanished
                print(escape_controls(str(error)))
    return opened_sum(state), state.survivors


def _charge(design: FederatedDesign, session: Session, ledger: PrivacyLedger | None) -> None:
    if ledger is not None:
        made = design.mechanism
        identity = session.identity_of_charge
        check_charged_once(ledger, identity, session.label)
        ledger.charge(
            made.budget,
            session.label,
            made.neighboring,
            noise=noise_kind(design, "exact"),
            rests_on=design.provenance,
            identity=identity,
        )


def party_nodes(grid: "Grid", session: Session, seconds: float) -> dict[int, list[int]]:
    """Return which nodes say that they are which party, once all have come or time is up.

    Several may say the same: all are asked, and signatures tell whose answer counts.
    """
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
    found: dict[int, list[int]] = {}
    for reply in replies:
        with suppress(KeyError, TypeError, ValueError):  # junk: such a node has vanished
            if not reply.has_error():
                number = int(reply.content[RECORD]["number"])
                found.setdefault(number, []).append(reply.metadata.src_node_id)
    return {number: found[number] for number in session.members if number in found}


def exchange_messages(
    grid: "Grid", nodes: Mapping[int, Sequence[int]], asked: Mapping[int, Message], seconds: float
) -> list[Message]:
    """Send one round's messages, and return the answers that came in time."""
    from flwr.app import ConfigRecord, RecordDict
    from flwr.app import Message as Envelope

    envelopes = [
        Envelope(
            RecordDict({RECORD: ConfigRecord(dict(vars(message)))}),
            dst_node_id=node,
            message_type=f"train.{NAME}",
        )
        for number, message in asked.items()
        for node in nodes.get(number, ())
    ]
    answers = []
    for reply in grid.send_and_receive(envelopes, timeout=seconds):
        with suppress(KeyError, TypeError, ValueError):  # junk: whoever sent it has vanished
            if not reply.has_error():
                answers.append(_message_of(reply.content[RECORD]))
    return answers


def _check(design: FederatedDesign, session: Session) -> None:
    if session.design != design.digest:
        raise ProtocolError(
            "session: it is of another design. Expected the strategy, budget, parties and classes "
            "that everyone agreed on."
        )


def _message_of(record: "ConfigRecord") -> Message:
    try:
        return Message(**{name: record[name] for name in Message.__dataclass_fields__})
    except KeyError as error:
        raise ProtocolError(f"message: the field {error} is missing.") from None
