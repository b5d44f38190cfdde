"""What a check answers, and the engine that all checks share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec

from workbook.solved import note_solved

More = ParamSpec("More")


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


NO_ANSWER = Verdict(False, "No answer yet: write yours in the cell above.", answered=False)


def the_solution(check: Callable[More, Verdict]) -> Callable[More, Verdict]:
    """The same check for the workbook's own solution: it says so, and the learner gains nothing."""
    judge = vars(check)["judge"]

    def of_the_solution(*args: More.args, **kwargs: More.kwargs) -> Verdict:
        verdict: Verdict = judge(*args, **kwargs)
        return replace(verdict, message=f"the solution: {verdict.message}")

    return of_the_solution


class Wrong(Exception):
    """The answer is wrong; the text names the symptom and the next step."""


def exercise(
    wanted: str = "", base: type = object, name: str = ""
) -> Callable[[Callable[Concatenate[Any, More], str]], Callable[Concatenate[Any, More], Verdict]]:
    """Make a check of a function that returns praise or raises `Wrong`.

    `wanted` is how the answer begins: `def` stands for a function, `class` for a class that extends
    `base`. Whatever else is raised comes from the learner's code, and makes the answer wrong. An
    exercise that was solved is noted under the `name` of the check, if not the function's.
    """

    def made(
        examine: Callable[Concatenate[Any, More], str],
    ) -> Callable[Concatenate[Any, More], Verdict]:
        def judge(answer: Any, /, *args: More.args, **kwargs: More.kwargs) -> Verdict:
            if answer is None:
                return NO_ANSWER
            try:
                _is_of_kind(answer, wanted, base)
                return Verdict(True, examine(answer, *args, **kwargs))
            except Wrong as wrong:
                return Verdict(False, str(wrong))
            except Exception as error:
                return Verdict(False, f"It raised {told(error)}")

        @wraps(examine)
        def check(answer: Any, /, *args: More.args, **kwargs: More.kwargs) -> Verdict:
            verdict = judge(answer, *args, **kwargs)
            if not verdict.passed:
                return verdict
            not_noted = note_solved(check.__name__)
            return replace(verdict, message=verdict.message + not_noted)

        check.__name__ = name or examine.__name__
        vars(check)["judge"] = judge
        vars(check)["wanted"] = wanted
        return check

    return made


def _is_of_kind(answer: Any, wanted: str, base: type) -> None:
    if wanted.startswith("def ") and not callable(answer):
        raise Wrong(f"A function is wanted: {wanted}: ...")
    if wanted.startswith("class "):
        is_class(answer, wanted, base)


def is_class(answer: Any, wanted: str, base: type) -> None:
    """Raise `Wrong` unless the answer is a class, not an object of it, that extends `base`."""
    if not isinstance(answer, type) or not issubclass(answer, base):
        name = wanted.removeprefix("class ").partition("(")[0]
        raise Wrong(f"A class is wanted: {wanted}: ... and then answer = {name}, without brackets.")


def told(error: BaseException) -> str:
    """An error in a line, with the line of the learner's code that raised it."""
    trace, where = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") in ("__main__", None):
            where = f" in `{trace.tb_frame.f_code.co_name}`, line {trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__}{where}: {' '.join(str(error).split())[:120].rstrip('.')}"


class Case(NamedTuple):
    """A call of the answer: its arguments, what it must return, and the hint if it does not.

    `symptoms` are results of typical mistakes, each with a hint of its own.
    """

    arguments: tuple[Any, ...]
    wanted: Any
    hint: str
    symptoms: Sequence[tuple[Any, str]] = ()


_AGAIN = (
    "An earlier call is remembered, or has changed its arguments: the same call must return the "
    "same again."
)


def compare(
    answer: Callable[..., Any],
    cases: Iterable[Case],
    key: Callable[[Any], Any] = lambda found: found,
    may_change: bool = False,
) -> None:
    """Raise `Wrong` for the first case in which `key` of the result is not what is wanted.

    `key` may raise `Wrong` itself, for a result of the wrong kind. Unless the answer `may_change`
    its arguments, it is called with them twice, and has to return the same.
    """
    for arguments, wanted, hint, symptoms in cases:
        call, given = call_of(answer, arguments), deepcopy(arguments)
        first, again = (hint, symptoms), (_AGAIN, ())
        for next_step, known in (first,) if may_change else (first, again):
            try:
                found = key(answer(*given))
            except Wrong as wrong:
                raise Wrong(f"{call}: {wrong}") from None
            except Exception as error:
                raise Wrong(f"{call} raised {told(error)}. {next_step}") from None
            if found != wanted:
                told_by = next((text for result, text in known if result == found), next_step)
                raise Wrong(f"{call} must be {wanted!r}, yours is {found!r}. {told_by}")


def call_of(answer: Callable[..., Any], arguments: Iterable[Any]) -> str:
    """The call as a learner would write it."""
    name = getattr(answer, "__name__", "")
    texts = ", ".join(map(_short, map(repr, arguments)))
    return f"{name if name.isidentifier() else 'answer'}({texts})"


def _short(text: str) -> str:
    return text if len(text) < 1_000 else f"{text[:30]} … {text[-10:]}"
