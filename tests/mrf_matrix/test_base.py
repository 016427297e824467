"""What every room stands on: whole files, workers, steps that are told, lists and tables."""

import errno
import os
import signal
import stat
import subprocess
import sys
import time
import unicodedata
from contextlib import suppress
from pathlib import Path

import joblib
import numpy as np
import pytest
from damage import ACTING, HARMLESS
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Domain, MatrixForestClassifier, PrivacyLedger, PrivateForestClassifier, tune
from mrf_matrix.base import check_writable, escape_controls, is_plain_line, whole_file
from mrf_matrix.base.checks import structure_generator
from mrf_matrix.base.display import SHOWN, first_few, latex_table
from mrf_matrix.base.work import bounded_jobs, progress_listener, run_tasks
from mrf_matrix.cli import screen
from mrf_matrix.files import write_container
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.planning.search.tuning import TrialFile

# Files whole or not at all ------------------------------------------------------------------------


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def write(path, content=b"new"):
    with whole_file(path) as file:
        file.write(content)


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write(path)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_what_was_there_and_names_the_file(tmp_path, monkeypatch, call, old):
    path = tmp_path / "file"
    if old is not None:
        path.write_bytes(old)
    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match=r"No space left on device: '.*file'$"):
        write(path)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == (
        {} if old is None else {"file": old}
    )


def test_a_block_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), whole_file(path) as file:
        file.writelines([b"half", None])
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_files_of_others_that_look_like_drafts_are_not_touched(tmp_path):
    (tmp_path / "file.part").write_bytes(b"precious")
    write(tmp_path / "file")
    check_writable(tmp_path / "file")
    assert (tmp_path / "file.part").read_bytes() == b"precious"
    assert sorted(os.listdir(tmp_path)) == ["file", "file.part"]


def test_a_symbolic_link_stays_and_what_it_names_is_replaced(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("file")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"


def test_folders_and_devices_are_refused(tmp_path):
    for path in (tmp_path, os.devnull):
        for call in (write, check_writable):
            with pytest.raises(ValueError, match="no regular file"):
                call(path)
    with pytest.raises(FileNotFoundError, match=r"nowhere/file'$"):
        write(tmp_path / "nowhere" / "file")


def test_a_place_without_room_is_not_writable(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*file'$"):
        check_writable(tmp_path / "file")
    assert os.listdir(tmp_path) == []


WRITERS = {
    "ledger": lambda path: PrivacyLedger.open(path, epsilon=1),
    "container": lambda path: write_container(path, "model", {}, {}),
    "domain": lambda path: Domain.from_sizes([2]).save(path),
    "trials": lambda path: TrialFile(path, {}).save([]),
}


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be synchronised on Windows")
@pytest.mark.parametrize("writer", WRITERS)
def test_every_writer_sees_file_and_folder_onto_the_disk(tmp_path, monkeypatch, writer):
    path = tmp_path / "file"
    seen = []
    sync = os.fsync

    def watched(handle):
        seen.append((stat.S_ISDIR(os.fstat(handle).st_mode), path.exists()))
        sync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    WRITERS[writer](path)
    assert seen == [(False, False), (True, True)]  # the file before it has its name, then the name


def test_a_folder_that_cannot_be_synchronised_is_taken_as_it_is_but_not_a_broken_disk(
    tmp_path, monkeypatch
):
    sync = os.fsync

    def failing(number):
        def of_folder(handle):
            if stat.S_ISDIR(os.fstat(handle).st_mode):
                raise OSError(number, os.strerror(number))
            sync(handle)

        return of_folder

    monkeypatch.setattr(os, "fsync", failing(errno.EINVAL))
    write(tmp_path / "file")
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(OSError, match=r"file'$"):
        write(tmp_path / "file")


def test_a_charge_that_cannot_be_written_is_refused_under_the_ledgers_name(tmp_path, monkeypatch):
    ledger = PrivacyLedger.open(tmp_path / "ledger.json", epsilon=1)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(ValueError, match=r"ledger\.json cannot be written: No space"):
            ledger.charge(PureDP(1), "x", neighboring="add_remove")
    assert ledger.spent == 0
    ledger.charge(PureDP(1), "x", neighboring="add_remove")


# Workers ------------------------------------------------------------------------------------------


PARENT = """
import os, time
from mrf_matrix.base.work import run_tasks
from sys import argv

def work(folder):
    open(os.path.join(folder, str(os.getpid())), "w").close()
    time.sleep(120)

if __name__ == "__main__":
    list(run_tasks(work, iter([argv[1]] * int(argv[2])), n_jobs=2))
"""


def test_no_more_workers_than_cores_and_tasks():
    cores = joblib.cpu_count()
    assert bounded_jobs(100_000) == bounded_jobs(-1) == cores
    assert bounded_jobs(100_000, 1) == 1
    assert bounded_jobs(-100_000) == 1
    assert bounded_jobs(None) is None
    for wrong in (0, 1.5, True, "2"):
        with pytest.raises(ValueError, match="n_jobs="):
            bounded_jobs(wrong)
    assert list(run_tasks(abs, [-1, 2, -3], n_jobs=100_000)) == [1, 2, 3]


def test_every_door_bounds_its_workers(monkeypatch):
    """What reaches joblib is a number of workers that the machine has."""
    asked = []
    parallel = joblib.Parallel

    def counted(n_jobs=None, **options):
        asked.append(n_jobs)
        return parallel(n_jobs=1, **options)

    for module in ("mrf_matrix.base.work", "mrf_matrix.forests.growth.grow"):
        __import__(module)
        monkeypatch.setattr(f"{module}.Parallel", counted)
    domain = Domain.from_sizes([2, 2], n_classes=2)
    space = {"kind": ["matrix"], "max_depth": [1], "n_trees": [1, 2], "strategy": ["identity"]}
    tune(domain, epsilon=1, n_records=100, space=space, objective="error", n_jobs=100_000)
    small = {"n_trees": 1, "max_depth": 1, "strategy": "identity", "noise": "research"}
    model = MatrixForestClassifier(domain, epsilon=1, n_jobs=100_000, noise_state=0, **small)
    model.fit([[0, 0], [1, 1]], [0, 1])
    assert asked
    assert all(one is None or 1 <= one <= joblib.cpu_count() for one in asked)


def is_there(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


def workers_of(parent):
    """Return joblib's processes of a parent, those that wait for a task as well."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            state = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            if (
                int(state[1]) == parent
                and "LokyProcess" in Path("/proc", name, "cmdline").read_text()
            ):
                found.append(int(name))
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked up in /proc")
@pytest.mark.parametrize("n_tasks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_workers_die_with_their_parent(tmp_path, n_tasks):
    program = tmp_path / "parent.py"
    program.write_text(PARENT)
    here = tmp_path / "workers"
    here.mkdir()
    parent = subprocess.Popen([sys.executable, str(program), str(here), str(n_tasks)])
    try:
        for _ in range(600):
            if workers := list(map(int, os.listdir(here))):
                break
            time.sleep(0.05)
        assert workers
        time.sleep(0.5)
        workers = workers_of(parent.pid)
        assert all(map(is_there, workers))  # as long as their parent is
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    for _ in range(600):
        if not any(map(is_there, workers)):
            break
        time.sleep(0.05)
    assert not any(map(is_there, workers))


# Lists, tables and generators ---------------------------------------------------------------------


def test_latex_escapes_what_it_would_read():
    text = latex_table([["a_b", r"c\d~", None, 1.23456]])
    assert r"a\_b & c\textbackslash{}d\textasciitilde{} &  & 1.235 \\" in text


def test_lists_for_people_count_what_they_leave_out():
    for count, rest in ((SHOWN - 1, ""), (SHOWN, ""), (SHOWN + 2, " and 2 more")):
        told = first_few(["a"] * count)
        assert told == ", ".join(["a"] * min(count, SHOWN)) + rest


def test_every_seed_of_old_generators_has_a_structure_of_its_own():
    first = [structure_generator(np.random.RandomState(seed)).random() for seed in range(200)]
    assert len(set(first)) == 200


# Steps that are told ------------------------------------------------------------------------------


SMALL_DOMAIN = Domain.from_sizes([3, 4, 2], n_classes=2)


def fit_and_listen(told, **settings):
    """Fit on a hundred records, and keep what was told with what was charged by then."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, SMALL_DOMAIN.sizes, (100, 3)), rng.integers(0, 2, 100)
    ledger = PrivacyLedger(epsilon=5)
    model = MatrixForestClassifier(SMALL_DOMAIN, n_trees=4, max_depth=2, ledger=ledger, **settings)
    with progress_listener(lambda *step: told.append((*step, len(ledger.charges)))):
        model.fit(X, y)


def test_every_step_is_told_and_only_the_draws_come_after_the_charge():
    told = []
    fit_and_listen(told, epsilon=1, strategy="identity", random_state=0)
    before = [what for what, _, _, charged in told if not charged]
    after = [what for what, _, _, charged in told if charged]
    starts = ("Growing", "Choosing", "Rounding", "Checking memory", "Measuring")
    assert [what.startswith(start) for what, start in zip(before, starts, strict=True)] == [
        True
    ] * 5
    assert after == ["Drawing exact noise", "Answering from the release"]


def test_draws_are_told_in_blocks(monkeypatch):
    monkeypatch.setattr("mrf_matrix.mechanisms.noise.DRAWS", 10)
    told = []
    fit_and_listen(told, epsilon=1, strategy="identity", random_state=0)
    draws = [(done, total) for what, done, total, _ in told if what == "Drawing exact noise"]
    total = draws[0][1]
    assert draws == [(done, total) for done in range(0, total, 10)]
    assert len(draws) > 1


@pytest.mark.parametrize("records", [10, 1000])
def test_what_is_told_is_public(records):
    """The same words for any records."""
    told = []
    rng = np.random.default_rng(records)
    X, y = rng.integers(0, SMALL_DOMAIN.sizes, (records, 3)), rng.integers(0, 2, records)
    model = MatrixForestClassifier(SMALL_DOMAIN, n_trees=4, max_depth=2, strategy="identity")
    with progress_listener(lambda *step: told.append(step)):
        model.set_params(random_state=0).fit(X, y)
    again = []
    with progress_listener(lambda *step: again.append(step)):
        model.fit(X[:1], y[:1])
    assert told == again


CASES = {  # attributes, records, epsilon, and a step of what its plan takes
    "tables": (3, 400, 1.0, "Fitting the posterior"),
    "residuals": (10, 6000, 2.0, "Measuring pass 1"),
    "labels": (20, 400, 0.1, "Drawing a tree of 4 cells"),
    "screening": (20, 8000, 1.0, "Choosing which attribute is kept"),
}


@pytest.mark.parametrize("case", CASES)
def test_every_step_of_a_private_forest_is_told(case):
    d, n, epsilon, step = CASES[case]
    codes = np.random.default_rng(0).integers(0, 3, (n, d))
    given = {"epsilon": epsilon, "n_records": n, "random_state": 0}
    model = PrivateForestClassifier(
        Domain.from_sizes([3] * d, n_classes=2), noise="research", noise_state=0, **given
    )
    told = []
    with progress_listener(lambda what, done, total: told.append(what)):
        model.fit(codes, (codes[:, 0] + codes[:, 1] > 1).astype(int))
    assert told[0] == "Planning the forest"
    assert any(one.startswith(step) for one in told)


# Texts that act -----------------------------------------------------------------------------------


def test_the_console_escapes_whatever_prints_it(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    table = screen.table("t\x1b[2J", "c\x9b2J")
    table.add_row("r\x1b]0;owned\x07")
    screen.console().print(table, "plain \x1b[2J", "[bold]styled[/bold]")
    shown = capsys.readouterr().out
    assert "owned" in shown
    assert not any(act in shown for act in ("\x1b[2J", "\x9b", "\x1b]0", "\x07"))
    assert "\x1b[1m" in shown  # rich's own styles stay


@pytest.mark.parametrize("text", ACTING)
def test_acting_texts_are_told_and_shown_harmless(text):
    around = f"yes{text}no"
    assert not is_plain_line(around)
    assert is_plain_line(escape_controls(around))
    assert escape_controls(around).startswith("yes\\")


@pytest.mark.parametrize("text", HARMLESS)
def test_words_of_any_language_stay_as_they_are(text):
    assert is_plain_line(text)
    assert escape_controls(text) == text


@given(st.text(st.characters()))
def test_what_is_escaped_is_plain_and_what_is_plain_stays(text):
    assert is_plain_line(escape_controls(text))
    assert (escape_controls(text) == text) == is_plain_line(text)
    assert all(unicodedata.category(one) != "Cc" for one in escape_controls(text))


def test_line_ends_may_be_kept():
    assert escape_controls("a\nb\x1b", keep="\n") == "a\nb\\x1b"
