"""Local state in the project's `.work/`, and free ports on this machine."""

from __future__ import annotations

import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"


def project_dir() -> Path:
    """Return the project that the current folder is in, or else the current folder."""
    here = Path.cwd()
    return next((p for p in (here, *here.parents) if (p / "environment.yml").is_file()), here)


def work_dir(*parts: str) -> Path:
    """Return a folder in the project's `.work/`, and create it if it is missing."""
    folder = project_dir().joinpath(".work", *parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def unseen_text(what: str) -> str:
    """Return the error text for a file that the driver has and this host lacks."""
    return (
        f"host {socket.gethostname()} does not see {what}: put it on storage that all workers "
        "share, under the same path. If the driver lacks it, too, it was deleted"
    )


def is_free(port: int) -> bool:
    """Return whether the port is free. A server that starts in the same moment still gets it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
