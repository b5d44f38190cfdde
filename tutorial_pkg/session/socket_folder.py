"""A folder for the Unix sockets between the JVM and Python, gone when its process is.

Spark removes most of its sockets itself, but not all: the folder of a process that ends without
`spark.stop()` goes at its exit, and that of a killed one when the next session starts.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import platform
import shutil
import socket
import stat
import tempfile
import uuid
from pathlib import Path

from tutorial_pkg.core.file_lock import pid_exists
from tutorial_pkg.core.places import work_dir

# On a folder that machines or containers share, the same pid may be alive on another one.
# Six digits, for the path of a socket may not be long.
PREFIX = f"sockets-{hashlib.sha1(platform.node().encode()).hexdigest()[:6]}-"


def socket_folder() -> Path | None:
    """This process's own folder, which nobody else can enter.

    None where no place on this machine takes Unix sockets, or other users' folders are in the way.
    """
    places = (work_dir("spark"), Path(tempfile.gettempdir()), Path("/tmp"))
    return next((folder for place in places if (folder := _made_in(place))), None)


def _made_in(place: Path) -> Path | None:
    remove_of_ended(place)
    folder = place / f"{PREFIX}{os.getpid()}"
    if not takes_sockets(place, len(folder.name) + 1):
        return None
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _is_private(folder):
        return None
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_private(folder: Path) -> bool:
    """Not if somebody else was quicker to make it, where all users may."""
    status = folder.lstat()
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return ours and not stat.S_IMODE(status.st_mode) & 0o077


def takes_sockets(place: Path, longer: int = 0) -> bool:
    """Whether a Unix socket can be in `place` whose path is `longer` characters longer than there.

    A path must fit into 104 to 108 bytes, and some network and shared folders take no sockets.
    """
    path = place / f".{uuid.uuid4()}{'x' * longer}.sock"  # the form of Spark's own names
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(str(path))
    except OSError:
        return False
    path.unlink()
    return True


def remove_of_ended(place: Path) -> None:
    """Remove what killed processes of this machine have left in `place`.

    Those of other users and of other machines stay.
    """
    for folder in place.glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX)
        if pid.isdigit() and not pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
