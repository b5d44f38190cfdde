"""Which exercises are solved: `progress()`. Checks record it in `.work/progress`.

A solved exercise is an empty file with the name of its check, so notebooks that run side by side
don't overwrite each other's records. Remove the folder to begin anew.
"""

from __future__ import annotations

import json

from IPython import get_ipython

import workbook
from tutorial_pkg.core.places import project_dir, work_dir


def record_solved(check: str) -> None:
    """In a notebook, record that the exercise of this check is solved."""
    if get_ipython() is not None:
        (work_dir("progress") / check).touch()


def solved() -> set[str]:
    """Return the names of the checks of solved exercises."""
    return {file.name for file in project_dir().glob(".work/progress/*")}


def progress() -> str:
    """Return the notebooks with a mark for each exercise, ✓ or –, and the next exercise."""
    done, lines, unsolved, count = solved(), [], [], 0
    for file in sorted(project_dir().glob("notebooks/[0-9][0-9]_*.ipynb")):
        first = json.loads(file.read_text(encoding="utf-8"))["cells"][0]
        title = first["source"][0].removeprefix("# ").strip()
        number = file.name[:2]
        checks = [name for name in workbook.__all__ if name.startswith(f"check_{number}_")]
        marks = " ".join("✓" if check in done else "–" for check in checks)
        lines.append(f"{number} {title:42}  {marks}")
        unsolved += [check for check in checks if check not in done]
        count += len(checks)
    if not lines:
        return f"No notebooks in {project_dir()}: go to the workbook's folder."
    summary = f"{count - len(unsolved)} of {count} exercises are solved."
    if unsolved:
        summary += f" Next: notebook {unsolved[0][6:8]}, exercise {unsolved[0][9:]}."
    return "\n".join([*lines, "", summary])
