"""Which exercises are solved. Checks note it under `.work/progress`; nothing leaves the machine.

A solved exercise is an empty file with the name of its check. So notebooks that run side by side
cannot spoil each other's notes, and no note can be torn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from IPython import get_ipython

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
    """Note in a notebook that the exercise of this check is solved; why not, if that fails.

    Elsewhere, as in a test, nothing is noted.
    """
    if not _in_a_notebook():
        return ""
    try:
        (work_dir(FOLDER) / check).touch()
    except OSError as error:
        return f" (Your progress cannot be noted: {error}.)"
    return ""


def _in_a_notebook() -> bool:
    return get_ipython() is not None


def solved() -> set[str]:
    """The names of the checks whose exercises are solved."""
    folder = project_dir() / ".work" / FOLDER
    return {file.name for file in folder.iterdir()} if folder.is_dir() else set()


def reset() -> int:
    """Forget all that is solved; how many exercises that were."""
    done = solved()
    for check in done:
        (work_dir(FOLDER) / check).unlink(missing_ok=True)
    return len(done)


def progress() -> str:
    """The notebooks with a mark for each exercise, ✓ or –, and what comes next."""
    lessons, done = list(_lessons()), solved()
    if not lessons:
        return f"There are no notebooks in {project_dir()}: go to the workbook's folder."
    width = max(len(lesson.title) for lesson in lessons)
    lines = [
        f"{lesson.number} {lesson.title:{width}}  {' '.join(_marks(lesson, done))}"
        for lesson in lessons
    ]
    exercises = [(lesson, one) for lesson in lessons for one in lesson.exercises]
    open_ones = [(lesson, one) for lesson, one in exercises if one.check not in done]
    lines += ["", f"{len(exercises) - len(open_ones)} of {len(exercises)} exercises are solved."]
    for lesson, one in open_ones[:1]:
        lines[-1] += f" Next: notebook {lesson.number}, {one.title}."
    return "\n".join(lines)


def _marks(lesson: Lesson, done: set[str]) -> Iterator[str]:
    return ("✓" if one.check in done else "–" for one in lesson.exercises)


def _lessons() -> Iterator[Lesson]:
    for file in sorted((project_dir() / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        title = texts[0].partition("\n")[0].removeprefix("# ")
        yield Lesson(file.stem[:2], title, list(_exercises(file.stem[:2], "\n".join(texts))))


def _exercises(notebook: str, text: str) -> Iterator[Exercise]:
    for found in _EXERCISE.finditer(text):
        first = int(found[1] or 1)
        for number in range(first, int(found[2] or first) + 1):
            yield Exercise(f"check_{notebook}_{number}", f"exercise {number}: {found[3]}")
