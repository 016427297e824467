"""Parties as they are deployed: exactly the noise that nobody needs comes off, and once."""

import numpy as np
import pytest

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mrf_matrix.federated import ProtocolError, federate, local_party, session_of
from mrf_matrix.federated.local_party import Kept, LocalParty, party_answer
from mrf_matrix.federated.noisy_answers import excess_session
from mrf_matrix.federated.sums.messages import ROUNDS
from mrf_matrix.federated.sums.server import ServerState, opened_sum, server_next, server_receive
from mrf_matrix.mechanisms import PrivacyLedger, PureDP, count_cells
from strategies.operators import Identity

PARTIES = 5
CELLS = 40


class Deployment:
    """Five parties and a server, with what each keeps, and what each drew."""

    def __init__(self, monkeypatch, colluders):
        self.design = federate(
            Identity(CELLS), PureDP(0.1), parties=PARTIES, dropouts=2, colluders=colluders,
            n_classes=1, remove_excess=True,
        )  # fmt: skip
        keys = [Ed25519PrivateKey.generate() for _ in range(PARTIES + 1)]
        publics = [key.public_key().public_bytes_raw() for key in keys]
        self.session = session_of(self.design, "a test", publics[:-1], publics[-1])
        self.identity = keys[-1]
        tables = [
            count_cells(np.full((i, 1), i), np.zeros(i, int), (CELLS,), 1) for i in range(PARTIES)
        ]
        self.locals = [
            LocalParty(i, keys[i], tables[i], PrivacyLedger(epsilon=1)) for i in range(PARTIES)
        ]
        self.kept, self.drawn = [Kept() for _ in range(PARTIES)], []
        draw = local_party.contribution
        monkeypatch.setattr(
            local_party, "contribution", lambda *given, **told: self.note(draw(*given, **told))
        )

    def note(self, made):
        self.drawn.append(made)
        return made

    def answer(self, message):
        number = message.receiver
        self.kept[number], reply = party_answer(
            self.design, self.session, self.locals[number], self.kept[number], message
        )
        return reply

    def summed(self, session, gone):
        """Run a sum; parties vanish before the round that `gone` says."""
        state = ServerState(session, self.identity)
        for place, _ in enumerate(ROUNDS):
            state, asked = server_next(state)
            for number, message in asked.items():
                if gone.get(number, len(ROUNDS)) > place:
                    state = server_receive(state, self.answer(message))
        return opened_sum(state), state.survivors


@pytest.mark.parametrize("colluders", [0, 1])
@pytest.mark.parametrize(
    ("gone", "later"), [({}, {}), ({1: 2}, {}), ({}, {3: 0}), ({2: 3}, {2: 0})]
)
def test_the_layers_of_those_who_reveal_come_off_and_no_others(monkeypatch, colluders, gone, later):
    deployed = Deployment(monkeypatch, colluders)
    total, survivors = deployed.summed(deployed.session, gone)
    sent = [i for i in range(PARTIES) if gone.get(i, 4) > 2]
    assert survivors == tuple(sent)
    assert (total == sum(made.values for made in deployed.drawn)).all()
    excess, revealing = deployed.summed(excess_session(deployed.session, survivors), later)
    assert revealing == tuple(i for i in sent if i not in later)
    part = deployed.design.revealed_layers(len(sent))
    drawn = dict(zip(sent, deployed.drawn, strict=True))
    expected = sum(drawn[i].layers[part.start - 1 :].sum(axis=0) for i in revealing)
    assert (excess == expected).all()
    assert excess.any()
    assert [one.ledger.spent > 0 for one in deployed.locals] == [i in sent for i in range(PARTIES)]


def test_excess_is_revealed_once_to_those_the_party_was_told_of(monkeypatch):
    deployed = Deployment(monkeypatch, 0)
    _, survivors = deployed.summed(deployed.session, {1: 2})
    everyone = excess_session(deployed.session, range(PARTIES))
    with pytest.raises(ProtocolError, match="another session"):
        deployed.summed(everyone, {})
    second = excess_session(deployed.session, survivors)
    deployed.summed(second, {})
    with pytest.raises(ProtocolError):
        deployed.summed(second, {})
    assert not deployed.kept[0].layers


def test_nothing_is_revealed_before_the_sum_is_opened(monkeypatch):
    deployed = Deployment(monkeypatch, 0)
    with pytest.raises(ProtocolError, match="another session"):
        deployed.summed(excess_session(deployed.session, range(PARTIES)), {})


def test_a_party_that_forgot_what_it_sent_pays_for_no_second_sum_of_one_identity(monkeypatch):
    deployed = Deployment(monkeypatch, 0)
    deployed.summed(deployed.session, {})
    deployed.kept = [Kept() for _ in range(PARTIES)]
    with pytest.raises(ProtocolError, match="charged for 'a test' already"):
        deployed.summed(deployed.session, {})
    assert len(deployed.drawn) == PARTIES
    assert [len(one.ledger.charges) for one in deployed.locals] == [1] * PARTIES
