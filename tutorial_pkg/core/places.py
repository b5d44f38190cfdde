"""Where local state goes, `.work/` of the project, and what a host does not see."""

from __future__ import annotations

import socket
from pathlib import Path


def project_dir() -> Path:
    """The project that the current folder is in; the current folder itself outside of one."""
    here = Path.cwd()
    return next((p for p in (here, *here.parents) if (p / "environment.yml").is_file()), here)


def work_dir(*parts: str) -> Path:
    """A folder under `.work/` of the project, made when it is missing."""
    folder = project_dir().joinpath(".work", *parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def unseen_text(what: str) -> str:
    """For an error of a task: this host sees less than the driver's."""
    return (
        f"host {socket.gethostname()} does not see {what}: put it on storage that all workers "
        "share, under the same path. If it is not on the driver's machine either, it was deleted"
    )
