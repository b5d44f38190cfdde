"""Which exercises are solved: `progress()`. Checks record it in `.work/progress`.

A solved exercise is an empty file with the name of its check, so notebooks that run side by side
cannot spoil each other's records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tutorial_pkg.core.places import project_dir, work_dir

FOLDER = "progress"
_EXERCISE = re.compile(r"^## Exercises?(?: (\d+))?(?: to (\d+))?: (.+)$", re.M)


@dataclass(frozen=True)
class Exercise:
    """`check` is the name of its check, as `check_09_1`."""

    check: str
    title: str


@dataclass(frozen=True)
class Lesson:
    """A notebook, by its number and its title."""

    number: str
    title: str
    exercises: list[Exercise]


def record_solved(check: str) -> str:
    """Record that the exercise of this check is solved; return why not, if that fails.

    Outside of a notebook nothing is recorded.
    """
    if not _in_a_notebook():
        return ""
    try:
        (work_dir(FOLDER) / check).touch()
    except OSError as error:
        return f" (Your progress cannot be recorded: {error}.)"
    return ""


def _in_a_notebook() -> bool:
    from IPython import get_ipython

    return get_ipython() is not None


def solved() -> set[str]:
    """Return the names of the checks of solved exercises."""
    folder = project_dir() / ".work" / FOLDER
    return {file.name for file in folder.iterdir()} if folder.is_dir() else set()


def reset() -> int:
    """Forget the solved exercises; return their number."""
    names = solved()
    for name in names:
        (work_dir(FOLDER) / name).unlink(missing_ok=True)
    return len(names)


def progress() -> str:
    """Return the notebooks with a mark for each exercise, ✓ or –, and what comes next."""
    lessons, done = list(_lessons()), solved()
    if not lessons:
        return f"There are no notebooks in {project_dir()}: go to the workbook's folder."
    width = max(len(lesson.title) for lesson in lessons)
    lines = []
    for lesson in lessons:
        marks = " ".join("✓" if one.check in done else "–" for one in lesson.exercises)
        lines.append(f"{lesson.number} {lesson.title:{width}}  {marks}")
    every = [(lesson, one) for lesson in lessons for one in lesson.exercises]
    unsolved = [(lesson, one) for lesson, one in every if one.check not in done]
    summary = f"{len(every) - len(unsolved)} of {len(every)} exercises are solved."
    for lesson, one in unsolved[:1]:
        summary += f" Next: notebook {lesson.number}, {one.title}."
    return "\n".join([*lines, "", summary])


def _lessons() -> Iterator[Lesson]:
    for file in sorted((project_dir() / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        title = texts[0].partition("\n")[0].removeprefix("# ")
        yield Lesson(file.stem[:2], title, list(_exercises(file.stem[:2], "\n".join(texts))))


def _exercises(notebook: str, text: str) -> Iterator[Exercise]:
    for match in _EXERCISE.finditer(text):
        first = int(match[1] or 1)
        for number in range(first, int(match[2] or first) + 1):
            yield Exercise(f"check_{notebook}_{number}", f"exercise {number}: {match[3]}")
