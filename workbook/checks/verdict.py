"""The verdict of a check, and what all checks share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import wraps
from traceback import walk_tb
from typing import Any, NamedTuple

from tutorial_pkg.core.errors import last_error
from workbook.solved import record_solved


@dataclass(frozen=True)
class Verdict:
    """A check's result, in one line. `passed` is None when there was nothing to judge."""

    passed: bool | None
    message: str

    def __repr__(self) -> str:
        mark = {True: "✓", False: "✗", None: "–"}[self.passed]
        return f"{mark} {self.message}"


NO_ANSWER = Verdict(None, "No answer yet: write yours in the cell above.")


class Wrong(Exception):
    """The answer is wrong; the text goes into the verdict."""


def expect(right: object, message: str) -> None:
    """Raise `Wrong` with this message unless `right` is true."""
    if not right:
        raise Wrong(message)


def must_be(result: Any, expected: Any, what: str, why: str) -> None:
    """Raise `Wrong` unless the result is the expected one."""
    if result != expected:
        raise Wrong(f"{what} {show(result)}; expected {show(expected)}, because {why}")


def exercise(start: str = "") -> Callable[[Callable[..., str]], Callable[..., Verdict]]:
    """Make a check of a function that returns praise, or raises `Wrong` or the answer's error.

    `start` is the answer's first line, such as `class Client`, or a pair such as `(look, read)`.
    """

    def decorate(examine: Callable[..., str]) -> Callable[..., Verdict]:
        @wraps(examine)
        def check(answer: Any, /, *args: Any, records: bool = True, **kwargs: Any) -> Verdict:
            if answer is None:
                return NO_ANSWER
            try:
                _check_kind(answer, start)
                verdict = Verdict(True, examine(answer, *args, **kwargs))
            except Wrong as wrong:
                return Verdict(False, str(wrong))
            except Exception as error:
                return Verdict(False, f"Your code raised {error_line(error)}.")
            if records:
                record_solved(check.__name__)
            return verdict

        return check

    return decorate


def the_solution(check: Callable[..., Verdict]) -> Callable[..., Verdict]:
    """Return the same check for the workbook's own solution; it records nothing as solved."""

    def of_the_solution(*args: Any, **kwargs: Any) -> Verdict:
        verdict = check(*args, records=False, **kwargs)
        return replace(verdict, message=f"the solution: {verdict.message}")

    return of_the_solution


def _check_kind(answer: Any, start: str) -> None:
    kind: Any = tuple | list if start.startswith("(") else Callable
    text = f"You set answer to {show(answer)}; expected `{start}`. Set it to what you defined."
    expect(not start or isinstance(answer, kind), text)


def error_line(error: BaseException) -> str:
    """Return an error in one line, with the line of the learner's code that raised it."""
    place = ""
    for frame, line in walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__") == "__main__":
            place = f" in `{frame.f_code.co_name}`, line {line}"
    return f"{str(last_error(error))[:300].rstrip('.: ')}{place}"


def show(value: Any) -> str:
    """Return the value as code; the middle of a long one is left out."""
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:60]} … {text[-20:]}"


class Case(NamedTuple):
    """A call: its arguments, the result or error (with a part of its text), and the reason."""

    arguments: tuple[Any, ...]
    expected: Any
    why: str


def compare(
    answer: Callable[..., Any], cases: Iterable[Case], key: Callable[[Any], Any] = lambda it: it
) -> None:
    """Raise `Wrong` for the first case with an unexpected result; `key` converts it before."""
    for arguments, expected, why in cases:
        call = f"{getattr(answer, '__name__', 'answer')}({', '.join(map(show, arguments))})"
        given = deepcopy(arguments)
        try:
            result = key(answer(*given))
        except Wrong:
            raise
        except Exception as error:
            is_right = isinstance(error, type(expected)) and str(expected) in str(error)
            expect(is_right, f"{call} raised {error_line(error)}; {why}")
            continue
        must_be(result, expected, f"{call} returned", why)
        expect(given == arguments, f"{call} changed its arguments to {show(given)}. Try a copy.")
