"""Growth is noticed at once where the kernel tells of it; elsewhere polling loses nothing."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.file_lines.driving import Clock, Tailing, age, append
from tutorial_pkg.connectors.file_lines import hints, watch
from tutorial_pkg.connectors.file_lines.hints import Inotify, file_system
from tutorial_pkg.connectors.file_lines.watch import AT_REST_EVERY, Watch

MANY = 20
QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")

pytestmark = pytest.mark.skipif(not QUEUE.exists(), reason="inotify is Linux's")


class Watched:
    """A watch that asks for no file at rest out of turn, and whose clock stands still."""

    def __init__(self, path: Path) -> None:
        self.clock = Clock()
        self._watch = Watch(str(path), lambda _: True, 60, self.clock)
        self._watch.look()

    def seen(self) -> set[str]:
        """The names of what a look finds changed."""
        found = map(self._watch.find, self._watch.look())
        return {Path(file.path).name for file in found if file}

    def seen_in_turn(self) -> set[str]:
        """And what is found by the time that polling takes."""
        seen = set()
        for _ in range(3):
            self.clock.now += AT_REST_EVERY / 2
            seen |= self.seen()
        return seen


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(watch, "_AT_REST_LEAST", 0)
    return filled(tmp_path / "logs")


def filled(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for number in range(MANY):
        grow(folder / f"{number}.log")
    return folder


def grow(file: Path) -> str:
    append(file, "more")
    age(file)
    return file.name


# ---- With hints ----------------------------------------------------------------------------------


def test_growth_of_a_file_at_rest_is_noticed_by_the_next_look(logs):
    watched = Watched(logs)
    assert watched.seen() == set()
    grow(logs / "7.log")
    grow(logs / "8.log")
    assert watched.seen() == {"7.log", "8.log"}
    (logs / "7.log").rename(logs / "renamed.log")
    grow(logs / "new.log")
    assert watched.seen() == {"renamed.log", "new.log"}


def test_a_hint_counts_though_all_times_are_as_before(logs, monkeypatch):
    """As after two writes between two ticks of the file system's clock."""
    watched = Watched(logs)
    before = watched._watch.at(str(logs / "7.log"))
    monkeypatch.setattr(watch, "found_file", lambda *_: before)
    grow(logs / "7.log")
    assert watched.seen() == {"7.log"}


def test_names_that_hints_told_of_need_no_listing(logs, monkeypatch):
    watched = Watched(logs)
    listed: list[Path] = []
    monkeypatch.setattr(watch, "names_in", lambda place: listed.append(place) or [])
    grow(logs / "new.log")
    assert watched.seen() == {"new.log"}
    assert watched.seen() == set()
    assert listed == []


def test_other_files_in_the_folder_are_not_asked_for(logs, monkeypatch):
    grow(logs / "other.txt")
    watched = Watched(logs / "*.log")
    monkeypatch.setattr(watched._watch, "_is_tracked", lambda _: False)
    monkeypatch.setattr(watch, "found_file", lambda *_: pytest.fail("asked for"))
    grow(logs / "other.txt")
    assert watched.seen() == set()


def test_a_reader_that_is_gone_leaves_nothing_open(logs):
    gc.collect()
    before = open_inotifies()
    tailing = Tailing(logs)
    for _ in range(3):
        tailing.batch()
    assert open_inotifies() == before
    kept = Tailing(logs, restarts=False)
    kept.batch()
    assert open_inotifies() == before + 1


def open_inotifies() -> int:
    descriptors = [fd for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    return sum(fd.readlink().name.endswith("inotify") for fd in descriptors)


# ---- Where there are none, or not all ------------------------------------------------------------


def refuse(number: int) -> Callable[[pytest.MonkeyPatch, Path], None]:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return lambda patch, _: patch.setattr(Inotify, "add", fail)


def take_away(patch: pytest.MonkeyPatch, _: Path) -> None:
    patch.setattr(hints.ctypes, "CDLL", lambda *_, **__: object())


def mount_by_network(patch: pytest.MonkeyPatch, folder: Path) -> None:
    device = folder.stat().st_dev
    mounts = folder.parent / "mountinfo"
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts.write_text(f"36 35 {number} / {folder} rw,noatime shared:1 - nfs4 host:/logs rw\n")
    patch.setattr(hints, "_MOUNTS", mounts)


@pytest.mark.parametrize(
    ("degrade", "reason"),
    [
        (refuse(errno.ENOSPC), "fs.inotify.max_user_watches is reached"),
        (refuse(errno.EMFILE), "fs.inotify.max_user_instances is reached"),
        (refuse(errno.EACCES), "Permission denied"),
        (take_away, "this system has no inotify"),
        (mount_by_network, "is on nfs4, which has other writers"),
    ],
)
def test_without_hints_all_is_found_in_turn_and_the_log_says_so(
    logs, monkeypatch, caplog, degrade, reason
):
    with monkeypatch.context() as patch:
        degrade(patch, logs)
        watched = Watched(logs)
        name = grow(logs / "7.log")
        assert watched.seen() == set()
        assert watched.seen_in_turn() == {name}
        assert [reason in message for message in caplog.messages] == [True]
    watched.clock.now += AT_REST_EVERY
    watched.seen()
    grow(logs / "8.log")
    assert watched.seen() == {"8.log"}  # hints are tried again


def test_a_queue_that_overflows_loses_nothing(logs, caplog):
    watched = Watched(logs)
    files = [os.open(logs / f"{number}.log", os.O_WRONLY | os.O_APPEND) for number in (1, 2)]
    for _ in range(int(QUEUE.read_text()) // 2 + 1):  # in turns: a repeated event counts once
        for file in files:
            os.write(file, b"line\n")
    name = grow(logs / "7.log")
    seen = watched.seen()
    assert name not in seen
    assert "more changed than fs.inotify.max_queued_events" in caplog.messages[0]
    assert "one at rest that grows again is noticed within two minutes" in caplog.messages[0]
    assert name in seen | watched.seen_in_turn()
    grow(logs / "8.log")
    assert watched.seen() == {"8.log"}  # hints again
    for file in files:
        os.close(file)


# ---- Folders that come, go and move --------------------------------------------------------------


@pytest.mark.parametrize("moved", ["top/logs", "top"])
def test_a_folder_that_is_replaced_is_watched_again(tmp_path, monkeypatch, moved):
    monkeypatch.setattr(watch, "_AT_REST_LEAST", 0)
    logs = filled(tmp_path / "top" / "logs")
    age(logs)  # the new one will look as old
    watched = Watched(logs)
    (tmp_path / moved).rename(tmp_path / "away")
    filled(logs)
    age(logs)
    assert len(watched.seen()) == MANY
    grow(logs / "7.log")
    grow(next((tmp_path / "away").rglob("8.log")))
    assert watched.seen() == {"7.log"}


@pytest.mark.parametrize("seen_without", [True, False])
def test_a_folder_that_is_deleted_and_made_again_is_watched_again(logs, seen_without):
    watched = Watched(logs)
    for file in logs.iterdir():
        file.unlink()
    logs.rmdir()
    if seen_without:
        assert watched.seen() == set()
    filled(logs)  # perhaps with its old inode
    assert len(watched.seen()) == MANY
    assert watched.seen() == set()
    grow(logs / "7.log")
    assert watched.seen() == {"7.log"}


def test_files_of_a_new_folder_that_were_there_before_its_watch(logs, monkeypatch):
    watched = Watched(logs.parent / "*" / "*.log")
    really_add = Inotify.add

    def add(self: Inotify, place: str) -> int:
        grow(Path(place, "before.log"))
        number = really_add(self, place)
        grow(Path(place, "behind.log"))
        return number

    monkeypatch.setattr(Inotify, "add", add)
    filled(logs.parent / "new")
    assert watched.seen() >= {"before.log", "behind.log", "0.log"}
    watched.seen()
    grow(logs.parent / "new" / "3.log")
    assert watched.seen() == {"3.log"}


def test_two_paths_of_one_folder_share_its_watch(logs):
    (logs.parent / "link").symlink_to(logs)
    watched = Watched(logs.parent / "*" / "*.log")
    grow(logs / "7.log")
    assert watched.seen() == {"7.log"}
    (logs.parent / "link").unlink()
    watched.seen()
    grow(logs / "7.log")
    assert watched.seen() == {"7.log"}


def test_what_no_hint_tells_of_is_found_in_turn(logs):
    """A link's file lies elsewhere."""
    grow(logs.parent / "elsewhere")
    (logs / "link.log").symlink_to(logs.parent / "elsewhere")
    watched = Watched(logs)
    grow(logs.parent / "elsewhere")
    assert watched.seen() == set()
    assert watched.seen_in_turn() == {"link.log"}


def test_the_file_system_of_a_device():
    mounts = ["24 30 0:22 / /proc rw - proc proc rw", "29 1 254:0 / / rw shared:1 - ext4 vda rw"]
    assert file_system(os.makedev(254, 0), mounts) == "ext4"
    assert file_system(os.makedev(0, 22), mounts) == "proc"
    assert file_system(os.makedev(0, 99), mounts) == ""
