"""Where local state goes: `.work/` of the project."""

from __future__ import annotations

import socket
from pathlib import Path


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
