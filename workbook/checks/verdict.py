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

MOST_CHARACTERS = 300  # of a value in a message


@dataclass(frozen=True)
class Verdict:
    """A check's result: `passed`, and one line with the symptom and the next step.

    `answered` is false when there was nothing to judge.
    """

    passed: bool
    message: str
    answered: bool = True

    def __repr__(self) -> str:
        mark = "✓" if self.passed else "✗" if self.answered else "–"
        return f"{mark} {self.message}"


NO_ANSWER = Verdict(False, "No answer yet: write yours in the cell above.", answered=False)


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
    """Make a check of a function that returns praise or raises `Wrong`.

    Any other exception comes from the learner's code and makes the answer wrong.

    Args:
        start: the answer's first line, such as `def cut(rest, received)` or `class Client`, or
            the pair to return, such as `(look, read)`.
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

        vars(check).update(start=start)
        return check

    return decorate


def the_solution(check: Callable[..., Verdict]) -> Callable[..., Verdict]:
    """Return the same check for the workbook's own solution; it records nothing as solved."""

    def of_the_solution(*args: Any, **kwargs: Any) -> Verdict:
        verdict = check(*args, records=False, **kwargs)
        return replace(verdict, message=f"the solution: {verdict.message}")

    return of_the_solution


def _check_kind(answer: Any, start: str) -> None:
    is_pair = start.startswith("(")
    parts = answer if is_pair and isinstance(answer, tuple | list) else [answer]
    right = not start or (len(parts) == 1 + is_pair and all(map(callable, parts)))
    text = f"You set answer to {show(answer)}; expected `{start}`. Set it to what you defined."
    expect(right, text)


def error_line(error: BaseException) -> str:
    """Return an error in one line, with the line of the learner's code that raised it."""
    if "Traceback" in str(error):
        return str(last_error(error))
    where, text = "", " ".join(str(error).split())[:120]
    for frame, line in walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__") in ("__main__", None):
            where = f" in `{frame.f_code.co_name}`, line {line}"
    return f"{type(error).__name__}{where}: {text}".rstrip(".: ")


def show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:60]} … {text[-20:]}"


class Case(NamedTuple):
    """A call of the answer: its arguments, the result or error, and the reason.

    The text of the expected error is a part of the answer's.
    """

    arguments: tuple[Any, ...]
    expected: Any
    why: str


def compare(
    answer: Callable[..., Any],
    cases: Iterable[Case],
    key: Callable[[Any], Any] = lambda result: result,
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
            kind = type(expected) if isinstance(expected, Exception) else ()
            is_right = isinstance(error, kind) and str(expected) in str(error)
            expect(is_right, f"{call} raised {error_line(error)}; {why}")
            continue
        must_be(result, expected, f"{call} returned", why)
        expect(given == arguments, f"{call} changed its arguments to {show(given)}. Try a copy.")
