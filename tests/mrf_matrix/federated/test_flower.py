"""The Flower adapter, on a grid in memory: no network, no ray, no telemetry."""

import os
import re
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import command_line
import numpy as np
import polars as pl
import pytest

pytest.importorskip("flwr.app")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from mrf_matrix.federated import BelowThresholdError, ProtocolError, federate, session_of
from mrf_matrix.federated.flower import LocalParty, client_app, server_app
from mrf_matrix.mechanisms import PrivacyLedger, PureDP, count_cells
from strategies.operators import Identity

PARTIES = 5
ENDLESS = PureDP(float("inf"))


class MemoryGrid(Grid):
    """Calls each client app directly; those who vanish answer with an error."""

    def __init__(self, apps, gone):
        self.apps, self.gone, self.rounds = apps, gone, 0
        self.contexts = {
            node: Context(1, node, {"partition-id": node - 1}, RecordDict(), {}) for node in apps
        }

    def set_run(self, run):
        raise NotImplementedError

    @property
    def run(self):
        raise NotImplementedError

    def create_message(self, *args, **kwargs):
        raise NotImplementedError

    def push_messages(self, messages):
        raise NotImplementedError

    def pull_messages(self, message_ids):
        raise NotImplementedError

    def get_node_ids(self):
        return list(self.apps)

    def get_nodes(self):
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        replies = [self._answer(message) for message in messages]
        self.rounds += 1
        return replies

    def _answer(self, message):
        node = message.metadata.dst_node_id
        if self.gone.get(node - 1, 99) <= self.rounds:
            return Message(Error(0, "vanished"), reply_to=message)
        try:
            return self.apps[node](message, self.contexts[node])
        except ProtocolError as error:  # Flower turns what an app raises into an error, too
            return Message(Error(1, str(error)), reply_to=message)


@pytest.fixture
def federation(monkeypatch):
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    keys = [Ed25519PrivateKey.generate() for _ in range(PARTIES + 1)]
    publics = [key.public_key().public_bytes_raw() for key in keys]

    def made(budget=ENDLESS, gone=(), remove_excess=False, **ledger):
        design = federate(
            Identity(4),
            budget,
            parties=PARTIES,
            dropouts=2,
            n_classes=1,
            remove_excess=remove_excess,
        )
        session = session_of(design, "a test", publics[:-1], publics[-1])
        parts = [count_cells(np.full((i, 1), i % 4), np.zeros(i, int), (4,), 1) for i in range(5)]
        ledgers = [PrivacyLedger(epsilon=2) if ledger else None for _ in range(PARTIES)]

        def load(context):
            place = context.node_config["partition-id"]
            return LocalParty(place, keys[place], parts[place], ledgers[place])

        apps = {i + 1: client_app(design, session, load) for i in range(PARTIES)}
        grid, kept = MemoryGrid(apps, dict(gone)), []
        app = server_app(design, session, lambda: keys[-1], (4,), kept.append, **ledger)
        context = Context(1, 0, {}, RecordDict(), {})
        return (lambda: app(grid, context)), kept, ledgers, design

    return made


@pytest.mark.parametrize(
    ("gone", "expected"),
    [((), [4, 1, 2, 3]), ([(1, 3)], [4, 0, 2, 3]), ([(1, 4), (4, 1)], [0, 1, 2, 3])],
)
def test_flower_carries_the_sum(federation, gone, expected):
    run, kept, _, _ = federation(gone=gone)
    run()
    assert kept[0].answers.ravel().tolist() == expected


def test_noise_ledgers_and_law_over_flower(federation):
    server = PrivacyLedger(epsilon=1)
    run, kept, ledgers, design = federation(PureDP(1), [(2, 3)], ledger=server)
    run()
    assert kept[0].is_private
    assert kept[0].law == design.law(4)
    assert [ledger.spent for ledger in ledgers] == [1, 1, 0, 1, 1]
    assert server.remaining == 0


@pytest.mark.parametrize(
    ("gone", "contributors", "revealing"),
    [
        ((), 5, 5),
        ([(1, 3)], 4, 4),
        ([(1, 4)], 5, 4),
        ([(2, 7)], 5, 4),
        ([(0, 3), (1, 3)], 3, 0),
        ([(0, 5), (1, 5), (2, 5)], 5, 0),
    ],
)
def test_excess_noise_is_taken_off_over_flower(federation, gone, contributors, revealing):
    """Node 1 is party 0; rounds 1 to 4 are the first sum, 5 to 8 the second."""
    run, kept, _, design = federation(PureDP(1), gone, remove_excess=True, ledger=None)
    run()
    assert kept[0].law == design.law(contributors, revealing)


def test_a_session_runs_once_and_too_few_open_nothing(federation):
    run, kept, _, _ = federation()
    run()
    with pytest.raises(BelowThresholdError):
        run()
    few, other, _, _ = federation(gone=[(0, 1), (1, 1), (2, 1)])
    with pytest.raises(BelowThresholdError):
        few()
    assert len(kept) == 1
    assert not other


def test_telemetry_is_off():
    assert os.environ["FLWR_TELEMETRY_ENABLED"] == "0"


def test_sessions_of_another_design_are_refused():
    design = federate(Identity(4), PureDP(1), parties=2, dropouts=1, n_classes=1)
    other = federate(Identity(5), PureDP(1), parties=2, n_classes=1)
    session = session_of(other, "a test", [bytes(32)] * 2, bytes(32))
    with pytest.raises(ProtocolError, match="design"):
        client_app(design, session, lambda context: None)


def test_the_files_of_the_documentation_make_a_federation(tmp_path, monkeypatch):
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    page = (Path(__file__).parents[3] / "docs" / "federated" / "deploying.md").read_text("utf-8")
    told = re.findall(r"^ +```python\n(.*?)^ +```$", page, re.M | re.S)
    agreed, party, server, use = map(dedent, told)
    sites = ["PARTY 0", "PARTY 1", "PARTY 2", "THE SERVER"]
    for number, name in enumerate(sites):
        (tmp_path / str(number)).mkdir()
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (tmp_path / str(number) / "identity.pem").write_bytes(pem)
        agreed = agreed.replace(f"KEY OF {name}", key.public_key().public_bytes_raw().hex())
        ledger = str(tmp_path / str(number) / "ledger.json")
        assert command_line.run("ledger", ledger, "--epsilon", "1").exit_code == 0
        records = {
            "age": [45, 71],
            "sex": ["F", "M"],
            "bmi": [22.5, 31.0],
            "diabetes": ["no", "yes"],
        }
        pl.DataFrame(records).write_parquet(tmp_path / str(number) / "records.parquet")
    (tmp_path / "federation").mkdir()
    server = server.replace("/srv/server", str(tmp_path / "3"))
    for name, text in (("agreed", agreed), ("party_app", party), ("server_app", server)):
        (tmp_path / "federation" / f"{name}.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    app = import_module("federation.party_app").app
    grid = MemoryGrid({1: app, 2: app, 3: app}, {})
    for node, context in grid.contexts.items():
        context.node_config |= {"party": node - 1, "folder": str(tmp_path / str(node - 1))}
    import_module("federation.server_app").app(grid, Context(1, 0, {}, RecordDict(), {}))
    monkeypatch.chdir(tmp_path / "3")
    names = {"patients": pl.DataFrame(records).drop("diabetes")}
    exec(use, names)
    assert names["model"].release_.quorum.parties == 3
