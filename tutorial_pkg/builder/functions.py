"""The functions that users give to a builder: how they are checked, called, retried and pickled."""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pyspark import cloudpickle

from tutorial_pkg.core.errors import NOT_THEIRS
from tutorial_pkg.core.options import Option, OptionValues, integer
from tutorial_pkg.core.waiting import Tries

Answer = TypeVar("Answer")
Function = Callable[..., Any]

_log = logging.getLogger(__name__)


class FunctionError(Exception):
    """A function given to a builder failed. The cause is its error."""


class ReturnedError(ConnectionError):
    """A function that ends only with its query returned earlier: as transient as a lost connection.

    Whatever other errors `.retry(...)` names.
    """


# ---- Retries -----------------------------------------------------------------------------------

SECONDS, PAUSE = "retrySeconds", "retryPauseMillis"


@dataclass(frozen=True)
class Retries:
    """What `.retry(...)` declares."""

    errors: tuple[type[BaseException], ...] = (ConnectionError, TimeoutError)
    seconds: float = 30
    pause: float = 0.5
    transient: Callable[[BaseException], bool] | None = None
    option: str = SECONDS

    def of(self, options: OptionValues) -> Retries:
        if not self.seconds:
            return self
        if hasattr(options, PAUSE):  # these options are ours
            return replace(self, seconds=options[self.option], pause=options[PAUSE] / 1_000)
        per_second = 1_000 if self.option.endswith(("Ms", "Millis")) else 1
        return replace(self, seconds=options[self.option] / per_second)

    def options(self, declared: list[Option]) -> list[Option]:
        if not self.seconds or self.option in [option.name for option in declared]:
            return []
        seconds = "how long to repeat a function after a refused connection or the like"
        pause = "the first pause before a retry; pauses double up to ten times that"
        return [
            Option(self.option, integer(0), self.seconds, seconds),
            Option(PAUSE, integer(1), round(self.pause * 1_000), pause),
        ]

    def may_pass(self, error: BaseException) -> bool:
        """Return whether the error is transient: itself, or one that led to it."""
        cause: BaseException | None = error.__cause__ if isinstance(error, FunctionError) else error
        if cause is not None and self.transient is not None and self.transient(cause):
            return True
        while cause is not None and not isinstance(cause, (*self.errors, ReturnedError)):
            cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
        return cause is not None

    def tries(self) -> Tries:
        return Tries(self.may_pass, self.seconds, self.pause, out_of_time=self._out_of_time)

    def _out_of_time(self, error: Exception) -> Exception:
        if self.seconds and isinstance(error, FunctionError):
            error.args = (f"{error} (tried for {self.seconds:g} s: option `{self.option}`)",)
        return error

    def patiently(
        self, work: Callable[[], Answer], between: Callable[[], object] = lambda: None
    ) -> Answer:
        """Return what `work` returns; call `between` and retry it after transient errors."""

        def after(error: Exception) -> None:
            _log.warning("%s; it is tried again", error)
            try:
                between()
            except Exception as second:  # a broken connection may refuse to close
                _log.warning("%s", second)

        return self.tries().patiently(work, after)


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
        """Call a function for `who` ("instance 1"), if it is given. Raises `FunctionError`."""
        with self.blamed(name, who):
            return self.given[name](*arguments) if name in self.given else None

    @contextmanager
    def blamed(self, name: str, who: str) -> Iterator[None]:
        """Turn errors in this block into those of the function `name`."""
        try:
            yield
        except (FunctionError, *NOT_THEIRS):  # an inner function has its own name
            raise
        except BaseException as error:
            what = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
            failure = f"format `{self.format}`: `{name}` of {who} failed: {what}"
            stack = "".join(traceback.format_exception(error))
            # Spark's worker dies of an error that it cannot encode.
            raise FunctionError(_utf_8(failure)) from (error if stack == _utf_8(stack) else None)


def _utf_8(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


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
    """Return `function`, if a call with these parameters runs it. Raises `TypeError`."""
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


def check_travel(format_name: str, functions: Mapping[str, Function]) -> None:
    """Raise `ValueError` for a function that Spark cannot pickle, and name what it captures."""
    for name, function in functions.items():
        try:
            cloudpickle.dumps(function)
        except Exception as error:
            raise ValueError(
                f"format `{format_name}`: `{name}` cannot be sent to the tasks, because it "
                f"{_captured(function)} ({error}). Open such things in `create` or `.connect`, "
                "which run where they are used"
            ) from None


def _captured(function: Function) -> str:
    """Name the variable that cannot be pickled, if the function itself uses it."""
    if inspect.isfunction(function):
        variables = inspect.getclosurevars(function)
        for name, value in {**variables.nonlocals, **variables.globals}.items():
            try:
                cloudpickle.dumps(value)
            except Exception:
                return f"captures `{name}`, a {type(value).__name__}"
    return "cannot be pickled"
