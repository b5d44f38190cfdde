"""`_cpu_log/`: what a commit keeps beside the files. One user's, and one process's at a time."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
from collections.abc import Iterator
from pathlib import Path

from tutorial_pkg.core.file_lock import FileLock

STATE = "_cpu_log"
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
LOCK_SECONDS = 30.0  # far more than another commit takes
LOCK_POLL_SECONDS = 0.02


class StateFolder:
    """The folder of this name in `directory`; nothing is made before it is needed.

    Only its user may look into it: whoever can open the lock could hold it, and whoever can write
    here could say what the log contains.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / STATE
        self.staged = self.path / "staged"
        self.lock = self.path / "lock"

    def make(self) -> None:
        """Make what is missing. Raises `OSError` when one of the folders is a symbolic link."""
        with words_for_another_user(self.path):
            for folder in (self.path, self.staged):
                folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
                if folder.is_symlink():
                    text = f"{folder} is a symbolic link, which is not followed here; remove it"
                    raise OSError(errno.ELOOP, text)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commits out. Raises `RuntimeError` that names who holds the lock too long."""
        self.make()
        with words_for_another_user(self.path):
            lock = FileLock(self.lock, PRIVATE_FILE)
        try:
            if not lock.take(LOCK_SECONDS, LOCK_POLL_SECONDS):
                holder = lock.holder()
                who = f"process {holder.process}" if holder else "another process"
                raise RuntimeError(
                    f"{self.lock} has been locked by {who} for more than {LOCK_SECONDS:g} s; end "
                    "that process, then start the query again"
                )
            yield
        finally:
            lock.release()


@contextlib.contextmanager
def words_for_another_user(folder: Path) -> Iterator[None]:
    """An error of permissions says whose the state is, and who cannot get at it."""
    try:
        yield
    except PermissionError as error:
        raise PermissionError(
            error.errno,
            f"this process runs as user {_user_name(os.geteuid())}, and the state of this "
            f"directory belongs to {_owner_of(folder)}; run the driver and all workers as one "
            f"user, or choose another directory",
            error.filename,
        ) from error


def _owner_of(folder: Path) -> str:
    existing = next(at for at in (folder, *folder.parents) if os.access(at, os.F_OK))
    return f"user {_user_name(existing.stat().st_uid)}"


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # a container's user need not have a name
        return str(number)
