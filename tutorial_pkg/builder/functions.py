"""The functions that users give to a builder: how they are checked, called, retried and pickled."""

from __future__ import annotations

import inspect
import logging
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

from pyspark import cloudpickle

from tutorial_pkg.core.errors import NOT_THEIRS
from tutorial_pkg.core.options import Option, OptionValues, integer
from tutorial_pkg.core.pauses import Tries

Answer = TypeVar("Answer")
Function = Callable[..., Any]

_log = logging.getLogger(__name__)


class FunctionError(Exception):
    """A function given to a builder raised an error, or returned an invalid value.

    The text names format, function, instance and the error; the error itself is its cause.
    """


# ---- Retries -----------------------------------------------------------------------------------

SECONDS, PAUSE = "retrySeconds", "retryPauseMillis"


@dataclass(frozen=True)
class Retries:
    """What `.retry(...)` declares. `declared`: the format itself declares the option `option`."""

    errors: tuple[type[BaseException], ...] = (ConnectionError, TimeoutError)
    seconds: float = 30
    pause: float = 0.5
    transient: Callable[[BaseException], bool] | None = None
    option: str = SECONDS
    declared: bool = False

    def of(self, options: OptionValues) -> Retries:
        """Return the policy with this query's options applied."""
        if not self.seconds:
            return self
        if self.declared:
            per_second = 1_000 if self.option.endswith(("Ms", "Millis")) else 1
            return replace(self, seconds=options[self.option] / per_second)
        return replace(self, seconds=options[self.option], pause=options[PAUSE] / 1_000)

    def options(self) -> list[Option]:
        """Return the options that the builder adds to the format."""
        if not self.seconds or self.declared:
            return []
        seconds = "how long to repeat a function after a refused connection or another "
        pause = (
            "the first pause before a retry; pauses double up to ten times that, less up to half "
            "by chance"
        )
        return [
            Option(self.option, integer(0), self.seconds, f"{seconds}transient error"),
            Option(PAUSE, integer(1), round(self.pause * 1_000), pause),
        ]

    def may_pass(self, error: BaseException) -> bool:
        """Return whether the error is transient: itself, or one that led to it."""
        cause: BaseException | None = error.__cause__ if isinstance(error, FunctionError) else error
        if cause is not None and self.transient is not None and self.transient(cause):
            return True
        while cause is not None and not isinstance(cause, self.errors):
            cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
        return cause is not None

    def tries(self) -> Tries:
        return Tries(self.may_pass, self.seconds, self.pause, out_of_time=self._out_of_time)

    def _out_of_time(self, error: Exception) -> Exception:
        if not self.seconds or not isinstance(error, FunctionError):
            return error
        late = FunctionError(f"{error} (tried for {self.seconds:g} s: option `{self.option}`)")
        late.__cause__ = error.__cause__
        return late

    def patiently(
        self, work: Callable[[], Answer], between: Callable[[], object] = lambda: None
    ) -> Answer:
        """Return what `work` returns; call `between` and retry it after transient errors."""
        tries = self.tries()
        while True:
            try:
                return work()
            except Exception as error:
                rest = tries.pause_after(error)
                _log.warning("%s; it is tried again", error)
                try:
                    between()
                except Exception as second:  # a broken connection may refuse to close
                    _log.warning("%s", second)
            time.sleep(rest)

    def begun(
        self, make: Callable[[], Iterator[Answer]], between: Callable[[], object] = lambda: None
    ) -> Iterator[Answer]:
        """Yield what `make()` yields; retry it before its first item, not later."""

        def first() -> tuple[list[Answer], Iterator[Answer]]:
            made = make()
            return list(islice(made, 1)), made

        head, rest = self.patiently(first, between)
        yield from head
        yield from rest


NONE = Retries(seconds=0)


# ---- Calls -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Functions:
    """The functions of one source or sink, by their names. `format` is its name."""

    format: str
    given: Mapping[str, Function]
    retries: Retries = NONE

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def call(self, name: str, who: str, *arguments: Any) -> Any:
        """Call a function for `who` ("instance 1"). Raises `FunctionError`."""
        with self.blamed(name, who):
            return self.given[name](*arguments)

    @contextmanager
    def blamed(self, name: str, who: str) -> Iterator[None]:
        """Turn errors in this block into those of the function `name`.

        A `FunctionError` stays what it is: it comes from a function within this one.
        """
        try:
            yield
        except (FunctionError, *NOT_THEIRS):
            raise
        except BaseException as error:
            raise self.failure(name, who, error) from as_cause(error)

    def failure(self, name: str, who: str, error: BaseException) -> FunctionError:
        what = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
        text = f"format `{self.format}`: `{name}` of {who} failed: {what}"
        return FunctionError(text.encode(errors="backslashreplace").decode())


def as_cause(error: BaseException) -> BaseException | None:
    """Return the error, if its text is valid UTF-8.

    A file name may be anything, and a worker that reports such a name dies without an error.
    """
    try:
        "".join(traceback.format_exception(error)).encode()
    except UnicodeEncodeError:
        return None
    return error


@contextmanager
def closing_with(close: Callable[[], object]) -> Iterator[None]:
    """Call `close` after the block. If the block raises an error, log an error of `close`."""
    try:
        yield
    except BaseException:
        try:
            close()
        except FunctionError as second:
            _log.warning("after another error: %s", second)
        raise
    close()


# ---- Checks, when a function is declared -------------------------------------------------------


def checked(name: str, function: Function, *parameters: str, may_yield: bool = False) -> Function:
    """Return `function`, if it can be called with these parameters. Raises `TypeError`.

    Calling an `async` function or a generator function would run nothing.
    """
    try:
        inspect.signature(function).bind(*parameters)
    except TypeError as error:
        text = f"`{name}` must be a function of ({', '.join(parameters)}): {error}"
        raise TypeError(text) from None
    except ValueError:  # some builtins have no signature
        pass
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"`{name}` must not be `async`: call `asyncio.run(...)` in it")
    if inspect.isgeneratorfunction(function) and not may_yield:
        raise TypeError(f"`{name}` must not `yield`: calling it would run nothing")
    return function


def check_travel(
    format_name: str, functions: Mapping[str, Function], opens: tuple[str, str]
) -> None:
    """Raise `ValueError` for a function that Spark cannot pickle, with the name that it captures.

    `opens` names the function in which to create such objects, and where to keep them.
    """
    for name, function in functions.items():
        reason = _refusal(function)
        if reason:
            what = _captured(function)
            because = f"it captures {what}" if what else "it cannot be pickled"
            raise ValueError(
                f"format `{format_name}`: `{name}` cannot travel to Spark's processes, because "
                f"{because} ({reason}). Make such things in {opens[0]}, which runs where they are "
                f"used, and keep them in {opens[1]}"
            )


def _refusal(value: Any) -> str | None:
    """Return why `value` cannot be pickled."""
    try:
        cloudpickle.dumps(value)
    except Exception as error:
        return " ".join(str(error).split())
    return None


def _captured(function: Function) -> str | None:
    """Return the variable that cannot be pickled, if the function itself uses it."""
    if not inspect.isfunction(function):
        return None
    variables = inspect.getclosurevars(function)
    for name, value in {**variables.nonlocals, **variables.globals}.items():
        if _refusal(value):
            return f"`{name}`, a {type(value).__name__}"
    return None
