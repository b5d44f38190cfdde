"""Where local state goes: `.work/` of the project, and nowhere else."""

from __future__ import annotations

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
