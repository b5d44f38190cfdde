"""Which exercises are solved: `progress()`. Checks record it in `.work/progress`.

A solved exercise is an empty file with the name of its check, so notebooks that run side by side
don't overwrite each other's records. Remove the folder to begin anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from tutorial_pkg.core.places import project_dir, work_dir

FOLDER = "progress"
_EXERCISE = re.compile(r"^## Exercises?(?: (\d+))?(?: to (\d+))?: (.+)$", re.M)


class Lesson(NamedTuple):
    """A notebook; `exercises` has a title for the name of each check, such as `check_09_1`."""

    number: str
    title: str
    exercises: dict[str, str]


def record_solved(check: str) -> None:
    """In a notebook, record that the exercise of this check is solved."""
    if _in_a_notebook():
        (work_dir(FOLDER) / check).touch()


def _in_a_notebook() -> bool:
    from IPython import get_ipython

    return get_ipython() is not None


def solved() -> set[str]:
    """Return the names of the checks of solved exercises."""
    folder = project_dir() / ".work" / FOLDER
    return {file.name for file in folder.iterdir()} if folder.is_dir() else set()


def progress() -> str:
    """Return the notebooks with a mark for each exercise, ✓ or –, and the next exercise."""
    lessons, done = list(_lessons()), solved()
    if not lessons:
        return f"No notebooks in {project_dir()}: go to the workbook's folder."
    width = max(len(lesson.title) for lesson in lessons)
    lines, unsolved, count = [], [], 0
    for number, title, exercises in lessons:
        marks = " ".join("✓" if check in done else "–" for check in exercises)
        lines.append(f"{number} {title:{width}}  {marks}")
        unsolved += [f"notebook {number}, {exercises[c]}" for c in exercises if c not in done]
        count += len(exercises)
    summary = f"{count - len(unsolved)} of {count} exercises are solved."
    if unsolved:
        summary += f" Next: {unsolved[0]}."
    return "\n".join([*lines, "", summary])


def _lessons() -> Iterator[Lesson]:
    for file in sorted((project_dir() / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        title = texts[0].partition("\n")[0].removeprefix("# ")
        exercises = {}
        for match in _EXERCISE.finditer("\n".join(texts)):
            first = int(match[1] or 1)
            for place in range(first, int(match[2] or first) + 1):
                exercises[f"check_{file.stem[:2]}_{place}"] = f"exercise {place}: {match[3]}"
        yield Lesson(file.stem[:2], title, exercises)
