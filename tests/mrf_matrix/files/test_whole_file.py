"""Files whole or not at all: what a failure leaves, and what is on the disk after success."""

import errno
import os
import stat

import pytest

from mrf_matrix import Domain
from mrf_matrix.base import check_writable, whole_file
from mrf_matrix.files import write_container
from mrf_matrix.mechanisms import PrivacyLedger, PureDP
from mrf_matrix.planning.search.tuning import TrialFile


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
