"""The functions that users give to a builder: how they are called, and whether they can travel."""

from __future__ import annotations

import concurrent.futures
import inspect
import logging
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark import cloudpickle

from tutorial_pkg.builder.retries import NONE, FunctionError, Retries
from tutorial_pkg.core.errors import NOT_THEIRS

Function = Callable[..., Any]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Functions:
    """The functions of one source or sink, by what they are for. `format` is its name."""

    format: str
    given: Mapping[str, Function]
    retries: Retries = NONE

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def call(self, name: str, who: str, *arguments: Any) -> Any:
        """Call a function for `who` ("instance 1"). Raises `FunctionError`."""
        try:
            return ran(name, self.given[name](*arguments))
        except (FunctionError, *NOT_THEIRS):  # the first is of a function within this one
            raise
        except BaseException as error:
            raise self.failure(name, who, error) from as_cause(error)

    @contextmanager
    def blamed(self, name: str, who: str) -> Iterator[None]:
        """Errors in this block are those of the function `name`: it returned something wrong."""
        try:
            yield
        except NOT_THEIRS:
            raise
        except BaseException as error:
            raise self.failure(name, who, error) from as_cause(error)

    def failure(self, name: str, who: str, error: BaseException) -> FunctionError:
        what = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
        text = f"format `{self.format}`: `{name}` of {who} failed: {what}"
        return FunctionError(text.encode(errors="backslashreplace").decode())


def as_cause(error: BaseException) -> BaseException | None:
    """The error, if Spark can write down what it says.

    The name of a file need not be UTF-8. A worker that has to tell such a name dies without a word,
    and the query waits for ever.
    """
    try:
        "".join(traceback.format_exception(error)).encode()
    except UnicodeEncodeError:
        return None
    return error


@contextmanager
def closing_with(close: Callable[[], object]) -> Iterator[None]:
    """Call `close` behind the block, and after an error in it.

    The query reports what failed first; an error of `close` after that goes to Spark's log.
    """
    try:
        yield
    except BaseException:
        try:
            close()
        except FunctionError as second:
            _log.warning("after another error: %s", second)
        raise
    close()


def checked(name: str, function: Function, *parameters: str, may_yield: bool = False) -> Function:
    """`function`, if it can be called with these parameters, and does its work then.

    Raises `TypeError` for others: also for a generator, if it must not be one, and for `async`.
    """
    wanted = f"`{name}` must be a function of ({', '.join(parameters)})"
    if not callable(function):
        raise TypeError(f"{wanted}, got {function!r}")
    try:
        inspect.signature(function).bind(*parameters)
    except TypeError as error:
        raise TypeError(f"{wanted}: {error}") from None
    except ValueError:  # some builtins tell nothing about their parameters
        pass
    runs = (
        function
        if inspect.isroutine(function) or isinstance(function, partial | type)
        else (
            type(function).__call__  # of an object
        )
    )
    if inspect.iscoroutinefunction(runs) or inspect.isasyncgenfunction(runs):
        raise TypeError(f"`{name}` must not be `async`: {_ASYNC}")
    if inspect.isgeneratorfunction(runs) and not may_yield:
        raise TypeError(f"`{name}` must not `yield`: {_YIELDS}")
    return function


def ran(name: str, result: Any) -> Any:
    """What a function has returned.

    Raises `TypeError` for an error, and if it shows that nothing has run yet.
    """
    kind = type(result)
    if isinstance(result, BaseException):
        raise TypeError(f"`{name}` returned a {kind.__name__}: raise it")
    is_state = name in ("create", "connect", "splits")  # or names; may be anything that has run
    if isinstance(result, types.CoroutineType | types.AsyncGeneratorType) or (
        inspect.isawaitable(result) and not is_state
    ):
        raise TypeError(f"it returned a {kind.__name__}: {_ASYNC}")
    # As `map(buffer.add, rows)` is one; a database's cursor has run, and is an iterator, too.
    is_lazy = isinstance(result, Iterator) and kind.__module__ in ("builtins", "itertools")
    if is_lazy and not is_state:
        raise TypeError(f"it returned a {kind.__name__}: {_YIELDS}")
    begins_work = is_state or name in ("receive", "receive_batch")  # which `flush` may wait for
    if isinstance(result, concurrent.futures.Future) and not begins_work:
        raise TypeError(f"it returned a {kind.__name__}: {_BEGUN}")
    return result


_ASYNC = (
    "nobody would await it; call `asyncio.run(...)` in it, or `run_until_complete` of a loop that "
    "the state keeps"
)
_YIELDS = "nobody would run it; do the work, and return"
_BEGUN = "nobody would wait for it, nor see its error; call its `result()`"


# ---- Travelling: Spark pickles functions, for the driver's reader process and for tasks ----------


def check_travel(
    format_name: str, functions: Mapping[str, Function], opens: tuple[str, str]
) -> None:
    """Raises `ValueError` that names the function and what it captures.

    `opens` says which function makes what cannot travel, and where it stays.
    """
    for name, function in functions.items():
        reason = _why_not(function)
        if reason:
            captured, value = _culprit(name, function, set()) or (name, function)
            raise ValueError(
                f"format `{format_name}`: `{name}` cannot travel to Spark's processes, because it "
                f"captures `{captured}`, a {type(value).__name__} ({reason}). Make such things "
                f"in {opens[0]}, which runs where they are used, and keep them in {opens[1]}"
            )


def _why_not(value: Any) -> str | None:
    """What pickling says against it; any error means that it cannot travel."""
    try:
        cloudpickle.dumps(value)
    except Exception as error:
        return " ".join(str(error).split())
    return None


def _culprit(name: str, value: Any, seen: set[int]) -> tuple[str, Any] | None:
    """The innermost thing with a name of its own that keeps `value` from travelling.

    None if everything to blame was `seen`: things may lead back to what captures them, as each
    method with `super()` does to its class.
    """
    seen.add(id(value))
    blamed = [(part_name, part) for part_name, part in _parts(value) if _why_not(part)]
    for part_name, part in blamed:
        if id(part) not in seen and (found := _culprit(part_name, part, seen)):
            return found
    return None if blamed else (name, value)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a function, a method or a class brings along, by the name that the user gave it."""
    if isinstance(value, partial):
        yield from [("func", value.func), *value.keywords.items()]
        yield from ((f"argument {place}", part) for place, part in enumerate(value.args))
    elif isinstance(value, types.MethodType):
        yield from vars(value.__self__).items() if hasattr(value.__self__, "__dict__") else ()
        yield value.__name__, value.__func__
    elif isinstance(value, types.FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        yield from ((name, cell.cell_contents) for name, cell in cells)
        yield from ((name, value.__globals__[name]) for name in _globals(value))
    elif isinstance(value, type):
        yield from vars(value).items()


def _globals(function: types.FunctionType) -> list[str]:
    """The global names that a function uses, also in functions within it."""
    codes = [function.__code__]
    names: set[str] = set()
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return sorted(names & function.__globals__.keys())
