"""Secure sums: right for every pattern of drop-outs, uniform to the server, strict on messages."""

from copy import copy
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mrf_matrix.federated import (
    AlteredMessageError,
    BelowThresholdError,
    OutOfOrderError,
    ProtocolError,
    ReplayedMessageError,
    federate,
    party,
    session_of,
)
from mrf_matrix.federated.noisy_answers import excess_session
from mrf_matrix.federated.party import (
    LocalParty,
    PartyRecord,
    party_answer,
    party_step,
    with_values,
)
from mrf_matrix.federated.sums.masks import recover, split_secret
from mrf_matrix.federated.sums.messages import (
    ROUNDS,
    SHARE_BYTES,
    pack,
    pack_by_party,
    pack_numbers,
    sign,
    unpack,
    unpack_by_party,
)
from mrf_matrix.federated.sums.server import ServerState, opened_sum, server_next, server_receive
from mrf_matrix.mechanisms import PrivacyLedger, PureDP, count_cells
from strategies.operators import Identity

SUBSETS = [gone for size in range(6) for gone in combinations(range(5), size)]


def finish(made):
    """Play what is left without drop-outs."""
    while made.server.now != "unmask":
        made.round()
    return opened_sum(made.server)


def continued(made, gone):
    """Play one more round in a copy: states are values, so one may go on from them twice."""
    other = copy(made)
    other.parties = dict(made.parties)
    other.round(gone)
    return other


def test_every_pattern_of_five_parties_opens_the_survivors_sum_or_nothing(play):
    """Whoever vanishes before masked vectors are sent, or between them and unmasking."""
    start = play()
    start.round()
    start.round()
    for gone in SUBSETS:
        masked = continued(start, gone)
        counted = [i for i in range(5) if i not in gone]
        if len(counted) < 3:
            with pytest.raises(BelowThresholdError, match="Nothing was opened"):
                masked.ask()
            continue
        for later in SUBSETS:
            if set(later) & set(gone):
                continue
            done = continued(masked, later)
            if len(counted) - len(later) < 3:
                with pytest.raises(BelowThresholdError, match="Nothing was opened"):
                    opened_sum(done.server)
            else:
                assert done.server.survivors == tuple(counted)
                assert np.array_equal(opened_sum(done.server), made_sum(done, counted))


def made_sum(made, counted):
    return made.values[counted].sum(axis=0)


@pytest.mark.parametrize("played", [0, 1])
def test_parties_that_vanish_before_they_share_leave_nothing_behind(play, played):
    for gone in [(), (0,), (1, 4), (0, 2, 3)]:
        made = play()
        for _ in range(played):
            made.round()
        made.round(gone)
        counted = [i for i in range(5) if i not in gone]
        if len(counted) < 3:
            with pytest.raises(BelowThresholdError, match="expected at least 3"):
                finish(made)
        else:
            assert np.array_equal(finish(made), made_sum(made, counted))


def test_masked_vectors_are_uniform_and_plain_ones_are_not(play):
    """Chi-square of bytes: of zeros under masks, also once all pair masks are known."""
    made = play(parties=3, length=20_000, threshold=2, values=np.zeros((3, 20_000), np.int64))
    made.round()
    made.round()
    for message in made.ask().values():
        reply = made.answer(message)
        tally = np.bincount(np.frombuffer(reply.payload, np.uint8), minlength=256)
        assert stats.chisquare(tally).pvalue > 1e-8
    plain = np.bincount(made.values[0].view(np.uint8), minlength=256)
    assert stats.chisquare(plain).pvalue < 1e-8


def test_sums_wrap_around_like_integers_of_64_bits(play):
    values = np.full((5, 3), 2**61, dtype=np.int64)
    values[4] = -(2**62)
    assert np.array_equal(finish(play(values=values)), np.full(3, 2**62))


def test_nobody_gives_both_shares_of_one_party(play):
    made = play()
    for gone in ((), (), (0,)):
        made.round(gone)
    for message in made.ask().values():
        reply = made.answer(message)
        given = unpack_by_party(reply.payload)
        assert set(given) == set(range(5))
        assert {len(share) for share in given.values()} == {SHARE_BYTES}
        with pytest.raises(ReplayedMessageError, match="over"):
            made.answer(message)  # asked again, for whatever survivors
    opposite = sign(
        replace(message, payload=pack([pack_numbers([0, 1, 2])]), signature=b""), made.keys[-1]
    )
    with pytest.raises(ReplayedMessageError):
        made.answer(opposite)


def test_server_refuses_altered_replayed_late_and_early_answers(play):
    made = play()
    asked = made.ask()
    reply = made.answer(asked[0])
    for name, value in (("payload", reply.payload + b" "), ("sender", 1), ("signature", bytes(64))):
        with pytest.raises(AlteredMessageError, match=r"does not fit"):
            server_receive(made.server, replace(reply, **{name: value}))
    with pytest.raises(AlteredMessageError, match="not asked"):
        server_receive(made.server, replace(reply, sender=17))
    with pytest.raises(OutOfOrderError, match="not begun"):
        server_receive(made.server, replace(reply, round="masked"))
    made.server = server_receive(made.server, reply)
    with pytest.raises(ReplayedMessageError, match="second message"):
        server_receive(made.server, reply)
    for number in range(1, 5):
        made.server = server_receive(made.server, made.answer(asked[number]))
    made.ask()
    with pytest.raises(ReplayedMessageError, match="late"):
        server_receive(made.server, reply)
    other = play(label="another")
    other.ask()
    with pytest.raises(ReplayedMessageError, match="another session"):
        server_receive(other.server, reply)


def test_party_refuses_altered_replayed_and_early_requests(play):
    made = play()
    first = made.ask()[0]
    with pytest.raises(AlteredMessageError, match="signature"):
        party_step(made.parties[0], replace(first, payload=pack([b"x"])))
    with pytest.raises(AlteredMessageError, match="for party"):
        party_step(made.parties[1], first)
    early = sign(replace(first, round="unmask", signature=b""), made.keys[-1])
    with pytest.raises(OutOfOrderError, match="not begun"):
        party_step(made.parties[0], early)
    forged = sign(replace(first, signature=b""), made.keys[1])
    with pytest.raises(AlteredMessageError, match="signature"):
        party_step(made.parties[0], forged)
    made.answer(first)
    with pytest.raises(ReplayedMessageError, match="over"):
        made.answer(first)


def test_a_key_swapped_by_the_server_is_noticed(play):
    made, other = play(), play()
    made.round()
    message = made.ask()[2]
    parts = unpack_by_party(message.payload)
    content, signature = unpack(parts[1], 2)
    wrong = pack([content[:-1] + bytes([content[-1] ^ 1]), signature])
    packed = message.payload.replace(parts[1], wrong)
    assert packed != message.payload
    with pytest.raises(AlteredMessageError, match="party 1"):
        made.answer(sign(replace(message, payload=packed, signature=b""), made.keys[-1]))
    assert other.session.digest != made.session.digest


def test_an_altered_share_is_noticed_before_anything_is_sent(play):
    made = play()
    made.round()
    made.round()
    message = made.ask()[2]
    box = unpack_by_party(message.payload)[1]
    wrong = bytes([box[0] ^ 1]) + box[1:]
    altered = replace(message, payload=message.payload.replace(box, wrong), signature=b"")
    with pytest.raises(AlteredMessageError, match="party 1 was altered"):
        made.answer(sign(altered, made.keys[-1]))


def test_a_wrong_share_opens_nothing(play):
    made = play(threshold=5)
    for _ in range(3):
        made.round()
    for number, message in made.ask().items():
        reply = made.answer(message)
        if number == 3:
            share = unpack_by_party(reply.payload)[0]
            wrong = bytes([share[0] ^ 1]) + share[1:]
            payload = reply.payload.replace(share, wrong)
            reply = sign(replace(reply, payload=payload, signature=b""), made.keys[3])
        made.server = server_receive(made.server, reply)
    with pytest.raises(AlteredMessageError, match="Nothing was opened"):
        opened_sum(made.server)


def test_vectors_of_another_length_or_twice_are_refused(play):
    made = play()
    with pytest.raises(ProtocolError, match="length that the session announced"):
        with_values(replace(made.parties[0], values=None), np.zeros(4, np.int64))
    with pytest.raises(ProtocolError, match="once a session"):
        with_values(made.parties[0], np.zeros(3, np.int64))
    with pytest.raises(ProtocolError, match="not that of party 1"):
        replace(made.parties[0], number=1)


def test_sessions_check_their_figures(play):
    session = play().session
    for change, told in (
        ({"threshold": 6}, "threshold=6"),
        ({"members": (0, 1, 1, 2, 3)}, "distinct"),
        ({"length": 0}, "length=0"),
        ({"server": b"short"}, "32 bytes"),
    ):
        with pytest.raises(ProtocolError, match=told):
            replace(session, **change)


def test_states_show_no_secret(play):
    made = play()
    made.round()
    shown = repr(made.parties[0]) + repr(made.server) + repr(made.parties[0].secrets)
    assert made.parties[0].secrets.mask.hex() not in shown
    assert "private" in shown


def test_fewer_shares_than_the_threshold_say_nothing():
    secret = bytes(range(32))
    stream = np.random.default_rng(0).bytes
    shares = split_secret(secret, range(5), 3, stream)
    for chosen in combinations(range(5), 3):
        assert recover({i: shares[i] for i in chosen}) == secret
    found = {recover({0: shares[0], 1: shares[1], 2: bytes([n]) + bytes(65)}) for n in range(9)}
    assert secret not in found
    with pytest.raises(ValueError, match="threshold"):
        split_secret(secret, range(2), 3, stream)


@given(st.one_of(st.binary(max_size=80), st.lists(st.binary(max_size=9), max_size=4).map(pack)))
def test_payloads_come_back_as_they_were_or_are_refused(data):
    """Whatever bytes come, nothing but the named refusal is raised."""
    try:
        parts = unpack(data)
    except AlteredMessageError:
        return
    assert pack(parts) == data
    try:
        by_party = unpack_by_party(data)
    except AlteredMessageError:
        return
    assert pack_by_party(by_party) == data


# Parties as they are deployed ---------------------------------------------------------------------

pytest.importorskip("cryptography")

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
        self.kept, self.drawn = [PartyRecord() for _ in range(PARTIES)], []
        draw = party.contribution
        monkeypatch.setattr(
            party, "contribution", lambda *given, **told: self.note(draw(*given, **told))
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
    deployed.kept = [PartyRecord() for _ in range(PARTIES)]
    with pytest.raises(ProtocolError, match="charged for 'a test' already"):
        deployed.summed(deployed.session, {})
    assert len(deployed.drawn) == PARTIES
    assert [len(one.ledger.charges) for one in deployed.locals] == [1] * PARTIES
