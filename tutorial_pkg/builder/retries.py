"""Which errors of a function may pass, and how long it is tried again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from tutorial_pkg.core.options import Option, OptionValues, integer
from tutorial_pkg.core.pauses import Tries, patiently

Answer = TypeVar("Answer")

SECONDS = Option(
    "retrySeconds",
    integer(0),
    30,
    "how long a function is tried again after a refused connection, or another error that may pass",
)
PAUSE = Option(
    "retryPauseMillis",
    integer(1),
    500,
    "the first pause before that; pauses double up to ten times that, less up to half by chance",
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Retries:
    """What a builder was given; for a query, what its options say."""

    errors: tuple[type[BaseException], ...] = (ConnectionError, TimeoutError)
    seconds: int = SECONDS.default
    pause: float = PAUSE.default / 1_000

    def of(self, options: OptionValues) -> Retries:
        """Those of a query."""
        if not self.seconds:
            return self
        return Retries(self.errors, options.retrySeconds, options.retryPauseMillis / 1_000)

    def options(self) -> list[Option]:
        """Those that a query has."""
        if not self.seconds:
            return []
        pause = replace(PAUSE, default=round(self.pause * 1_000))
        return [replace(SECONDS, default=self.seconds), pause]

    def may_pass(self, error: BaseException) -> bool:
        """Whether one of the errors led to this one: clients wrap what the network has said."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, self.errors):
            cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
        return cause is not None

    def tries(self) -> Tries:
        return Tries(self.may_pass, self.seconds, self.pause)

    def patiently(
        self,
        work: Callable[[], Answer],
        between: Callable[[], object] = lambda: None,
        also_if: Callable[[], bool] = lambda: True,
    ) -> Answer:
        """What `work` returns, tried again if `also_if` agrees; `between` is called before that."""

        def may_pass(error: Exception) -> bool:
            return also_if() and self.may_pass(error)

        def tell(error: Exception) -> None:
            _log.warning("%s; it is tried again", error)
            try:
                between()
            except Exception as second:  # what is broken may not close either
                _log.warning("%s", second)

        return patiently(work, may_pass, self.seconds, self.pause, tell)

    def begun(
        self, make: Callable[[], Iterator[Answer]], between: Callable[[], object] = lambda: None
    ) -> Iterator[Answer]:
        """What `make()` yields. It is made again while it has yielded nothing, not later."""

        def first() -> tuple[list[Answer], Iterator[Answer]]:
            made = make()
            return list(islice(made, 1)), made

        head, rest = self.patiently(first, between)
        yield from head
        yield from rest


NONE = Retries(seconds=0)
