"""What a check answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

More = ParamSpec("More")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Verdict:
    """What a check found: `passed`, and one line that names the symptom and the next step.

    `answered` is false when there was nothing to judge.
    """

    passed: bool
    message: str
    answered: bool = True

    def __repr__(self) -> str:
        mark = "✓" if self.passed else "✗" if self.answered else "–"
        return f"{mark} {self.message}"


def right(message: str) -> Verdict:
    return Verdict(True, message)


def not_yet(message: str) -> Verdict:
    return Verdict(False, message)


class Wrong(Exception):
    """The answer is wrong; the text says how."""


def judged(examine: Callable[[], None], praise: str) -> Verdict:
    """Right with `praise`, unless `examine` raises `Wrong`, or the learner's own code an error."""
    try:
        examine()
    except Wrong as wrong:
        return not_yet(str(wrong))
    except Exception as error:  # whatever the answer raises makes it a wrong one
        text = " ".join(str(error).split())
        return not_yet(f"It raised {type(error).__name__}: {text[:120]}.")
    return right(praise)


def the_solution(verdict: Verdict) -> Verdict:
    """The same verdict, saying that it is the workbook's own solution that was judged."""
    return replace(verdict, message=f"the solution: {verdict.message}")


def exercise(
    check: Callable[Concatenate[Answer, More], Verdict],
) -> Callable[Concatenate[Answer | None, More], Verdict]:
    """A check of an exercise: as long as the answer is None, it says that there is none."""

    @wraps(check)
    def checked(answer: Answer | None, /, *args: More.args, **kwargs: More.kwargs) -> Verdict:
        if answer is None:
            return Verdict(False, "No answer yet: write yours in the cell above.", answered=False)
        return check(answer, *args, **kwargs)

    return checked
