"""One process at a time, one user, and words for those who are kept out."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tutorial_pkg.connectors.cpu_log import state_folder
from tutorial_pkg.connectors.cpu_log.publish import PublishedDirectory
from tutorial_pkg.connectors.cpu_log.state_folder import StateFolder

HOLDER = """
import sys
from pathlib import Path
from tutorial_pkg.connectors.cpu_log.state_folder import StateFolder
with StateFolder(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    input()
"""


def test_a_lock_that_somebody_keeps_is_an_error_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_folder, "LOCK_SECONDS", 0.1)
    folder = StateFolder(tmp_path)
    command, pipe = [sys.executable, "-c", HOLDER, str(tmp_path)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as holder:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(RuntimeError) as failed, folder.locked():
            pass
        holder.communicate(b"\n")
    assert str(failed.value) == (
        f"{folder.lock} has been locked by process {holder.pid} for more than 0.1 s; end that "
        "process, then start the query again"
    )
    with folder.locked():
        pass


@pytest.fixture
def anothers() -> Iterator[Path]:
    """A directory whose state another user's process cannot look into."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o777)
        StateFolder(Path(directory)).make()
        if os.geteuid():
            (Path(directory) / "_cpu_log").chmod(0)
            yield Path(directory)
            (Path(directory) / "_cpu_log").chmod(0o700)
            return
        os.seteuid(65534)
        yield Path(directory)
        os.seteuid(0)


def test_another_users_state_is_named(anothers: Path) -> None:
    with pytest.raises(PermissionError) as failed:
        PublishedDirectory(anothers).check_record()
    text = str(failed.value)
    assert "this process runs as user " in text
    assert "and the state of this directory belongs to user " in text
    assert "run the driver and all workers as one user, or choose another directory" in text
