"""Sessions, states and rounds that the tests of secure sums play with."""

import numpy as np
import pytest

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mrf_matrix.federated import Session
from mrf_matrix.federated.party import PartyState, party_step, with_values
from mrf_matrix.federated.sums.server import ServerState, server_next, server_receive


class Play:
    """A small secure sum, step by step."""

    def __init__(self, parties=5, length=3, threshold=3, values=None, label="a test"):
        keys = [Ed25519PrivateKey.generate() for _ in range(parties + 1)]
        publics = tuple(key.public_key().public_bytes_raw() for key in keys)
        members = tuple(range(parties))
        session = Session(label, members, publics[:-1], publics[-1], threshold, length)
        if values is None:
            values = np.random.default_rng(0).integers(-1000, 1000, (parties, length))
        self.keys, self.session, self.values = keys, session, values
        self.server = ServerState(session, keys[-1])
        self.parties = {
            i: with_values(PartyState(session, i, keys[i]), values[i]) for i in range(parties)
        }

    def ask(self):
        self.server, asked = server_next(self.server)
        return asked

    def answer(self, message):
        number = message.receiver
        self.parties[number], reply = party_step(self.parties[number], message)
        return reply

    def round(self, gone=()):
        for number, message in self.ask().items():
            if number not in gone:
                self.server = server_receive(self.server, self.answer(message))


@pytest.fixture
def play():
    return Play
