"""The retry policy of a builder: which errors are transient, and for how long to try again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from tutorial_pkg.core.options import Option, OptionValues, integer
from tutorial_pkg.core.pauses import Tries

Answer = TypeVar("Answer")

SECONDS = Option(
    "retrySeconds",
    integer(0),
    30,
    "how long to repeat a function after a refused connection or another transient error",
)
PAUSE = Option(
    "retryPauseMillis",
    integer(1),
    500,
    "the first pause before a retry; pauses double up to ten times that, less up to half by chance",
)

_log = logging.getLogger(__name__)


class FunctionError(Exception):
    """A function given to a builder raised an error, or returned an invalid value.

    The text names format, function, instance and the error; the error itself is its cause.
    """


@dataclass(frozen=True)
class Retries:
    """What `.retry(...)` declares. `declared`: the format itself declares the option `option`."""

    errors: tuple[type[BaseException], ...] = (ConnectionError, TimeoutError)
    seconds: float = SECONDS.default
    pause: float = PAUSE.default / 1_000
    transient: Callable[[BaseException], bool] | None = None
    option: str = SECONDS.name
    declared: bool = False

    def of(self, options: OptionValues) -> Retries:
        """Return the policy with this query's options applied."""
        if not self.seconds:
            return self
        if self.declared:
            per_second = 1_000 if self.option.endswith(("Ms", "Millis")) else 1
            return replace(self, seconds=options[self.option] / per_second)
        return replace(self, seconds=options[self.option], pause=options[PAUSE.name] / 1_000)

    def options(self) -> list[Option]:
        """Return the options that the builder adds to the format."""
        if not self.seconds or self.declared:
            return []
        pause = replace(PAUSE, default=round(self.pause * 1_000))
        return [replace(SECONDS, name=self.option, default=self.seconds), pause]

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
        """Yield what `make()` yields; retry it as long as it has not yielded anything."""

        def first() -> tuple[list[Answer], Iterator[Answer]]:
            made = make()
            return list(islice(made, 1)), made

        head, rest = self.patiently(first, between)
        yield from head
        yield from rest


NONE = Retries(seconds=0)
