"""Where the Unix sockets between the JVM and Python are, and that nothing of them stays."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tutorial_pkg.session.socket_folder import remove_of_ended, socket_folder, takes_sockets

HERE = hashlib.sha1(os.uname().nodename.encode()).hexdigest()[:6]
NAME = f"sockets-{HERE}-{os.getpid()}"


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """A folder too deep for sockets: the whole path of one must fit into 104 bytes."""
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    return folder


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path leaves room for that of a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def test_a_folder_takes_sockets_while_their_paths_are_short(deep: Path) -> None:
    assert not takes_sockets(deep)
    assert not takes_sockets(Path("/nowhere"))
    assert takes_sockets(Path("/tmp"))
    assert not takes_sockets(Path("/tmp"), longer=100)
    assert not list(deep.iterdir())


def test_a_deep_project_has_its_sockets_in_the_folder_for_temporary_files(
    deep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(deep)
    folder = socket_folder()
    assert folder in (Path(tempfile.gettempdir()) / NAME, Path("/tmp") / NAME)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("made", ["open to all", "by another user", "a link", "a file"])
def test_a_folder_that_others_can_enter_is_not_used(
    short: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    """In the folder for temporary files anybody may make one of that name first."""
    monkeypatch.setattr("tutorial_pkg.session.socket_folder.work_dir", lambda *_: short)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/nowhere")
    theirs = short / NAME
    if made == "a link":
        (short / "private").mkdir(0o700)
        theirs.symlink_to(short / "private")
    elif made == "a file":
        theirs.touch(0o600)
    else:
        theirs.mkdir(0o700)
        theirs.chmod(0o777 if made == "open to all" else 0o700)
    if made == "by another user":
        monkeypatch.setattr(os, "geteuid", lambda: theirs.stat().st_uid + 1)
    assert socket_folder() in (Path("/tmp", NAME), None), "the next place, or TCP"
    theirs.rmdir() if theirs.is_dir() and not theirs.is_symlink() else theirs.unlink()
    monkeypatch.undo()
    monkeypatch.setattr("tutorial_pkg.session.socket_folder.work_dir", lambda *_: short)
    assert socket_folder() == theirs


def test_the_folder_of_an_ended_process_goes_and_those_in_use_stay(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    elsewhere = hashlib.sha1(b"another machine").hexdigest()[:6]
    of_others = f"sockets-{elsewhere}-{ended}"  # on a shared folder: it may be alive there
    names = (f"sockets-{HERE}-{ended}", NAME, of_others, f"sockets-{ended}", "sockets-mine")
    for name in names:
        (tmp_path / name).mkdir()
    remove_of_ended(tmp_path)
    assert {folder.name for folder in tmp_path.iterdir()} == set(names[1:])


def test_a_process_takes_its_folder_away_when_it_ends() -> None:
    code = "from tutorial_pkg.session.socket_folder import socket_folder; print(socket_folder())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    folder = Path(done.stdout.strip())
    assert folder.name.startswith("sockets-")
    assert not folder.exists()
