"""Where local state goes, `.work/` of the project, and what a host does not see."""

from __future__ import annotations

import os
import socket
from pathlib import Path

ROOT = 0  # can do anything anyway


def project_dir() -> Path:
    """The project that the current folder is in; the current folder itself outside of one."""
    here = Path.cwd()
    return next((p for p in (here, *here.parents) if (p / "environment.yml").is_file()), here)


def work_dir(*parts: str) -> Path:
    """A folder under `.work/` of the project, made when it is missing.

    Raises `PermissionError` for a `.work` that a stranger has made, where all users may write: what
    is in it is run.
    """
    work = project_dir() / ".work"
    folder = work.joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    if _owner(work) not in (os.geteuid(), _owner(work.parent), ROOT):
        raise PermissionError(
            f"{work} belongs to another user, who could put programs there; remove it, or work in "
            "a folder of your own"
        )
    return folder


def _owner(path: Path) -> int:
    return path.lstat().st_uid


def unseen_text(what: str) -> str:
    """For an error of a task: this host sees less than the driver's."""
    return (
        f"host {socket.gethostname()} does not see {what}: put it on storage that all workers "
        "share, under the same path. If it is not on the driver's machine either, it was deleted"
    )
