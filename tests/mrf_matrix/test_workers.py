"""Workers are as many as cores and tasks at most, and die with their parent."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import joblib
import pytest

from mrf_matrix import Domain, MatrixForestClassifier, tune
from mrf_matrix.base.workers import bounded_jobs, computed

PARENT = """
import os, time
from mrf_matrix.base.workers import computed
from sys import argv

def work(folder):
    open(os.path.join(folder, str(os.getpid())), "w").close()
    time.sleep(120)

if __name__ == "__main__":
    list(computed(work, iter([argv[1]] * int(argv[2])), n_jobs=2))
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
    assert list(computed(abs, [-1, 2, -3], n_jobs=100_000)) == [1, 2, 3]


def test_every_door_bounds_its_workers(monkeypatch):
    """What reaches joblib is a number of workers that the machine has."""
    asked = []
    parallel = joblib.Parallel

    def counted(n_jobs=None, **options):
        asked.append(n_jobs)
        return parallel(n_jobs=1, **options)

    for module in ("mrf_matrix.base.workers", "mrf_matrix.forests.growth.grow"):
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
@pytest.mark.parametrize("n_tasks", [1, 2])
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
