"""What all builders have in common: a name, functions, and options that are declared once."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar

from tutorial_pkg.builder.built import Schema
from tutorial_pkg.builder.context import SourceContext
from tutorial_pkg.builder.functions import Function, Functions, check_travel, checked
from tutorial_pkg.builder.retries import SECONDS, Retries
from tutorial_pkg.core.options import Option, Options, OptionValues, choice, integer

Parse = Callable[[str], Any]
State = TypeVar("State")  # what `create` returns, and all other functions take
# What is easily given as a parser: what makes one, Python's `bool`, to which "false" is true, and
# what takes a text apart into letters.
MISTAKEN: dict[Any, str] = {
    integer: "`integer(0)`",
    choice: '`choice("a", "b")`',
    bool: "`boolean`",
    **dict.fromkeys((list, tuple, set, frozenset), "`names`"),
}


class Declaration:
    """Functions and options as they are given, one after the other."""

    _OPENS = "`create`", "its state"

    def __init__(self, name: str, schema: Schema = "") -> None:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z]\w*", name):
            raise ValueError(
                f"the name of a format is letters, digits and `_`, and starts with a letter, "
                f"got {name!r}"
            )
        self._name = name
        self._schema = schema if not callable(schema) else checked("schema", schema, "options")
        self._given: dict[str, Function] = {}
        self._options: list[Option] = []
        self._retries = Retries()

    def option(
        self, name: str, parse: Parse, default: Any, meaning: str, allowed: str | None = None
    ) -> Self:
        """Declare an option: the query's `.option(name, …)` reaches `context.options`.

        `parse` turns the text that Spark hands over into a value, and raises `ValueError` if it
        cannot: `integer(0)`, `choice("a", "b")`, `boolean`, `not_empty` of `tutorial_pkg.builder`,
        or a function of yours. `default` is a value, such as `False`, or `REQUIRED`. `allowed` says
        in errors what the option takes.
        """
        return self.options(Option(name, parse, default, meaning, allowed))

    def options(self, *declared: Option) -> Self:
        """Declare several: each an `Option(name, parse, default, meaning)`, as formats share
        them."""
        for option in declared:
            checked(f"option {option.name}", option.parse, "text")
            if instead := MISTAKEN.get(option.parse):
                raise ValueError(f"option {option.name}: say what it takes: {instead}")
            _check_default(option)
        self._options += declared
        return self

    def retry(
        self,
        *errors: type[BaseException],
        seconds: float = SECONDS.default,
        pause: float = 0.5,
        transient: Callable[[BaseException], bool] | None = None,
        option: str = SECONDS.name,
    ) -> Self:
        """Say which errors are transient, and for how long a function is repeated after one.

        Without a call, these are `ConnectionError` and `TimeoutError`, for 30 seconds. Any other
        error ends the query at once. Pauses double from `pause` up to ten times that; each is
        shortened by a random part of up to a half.

        Args:
            errors: the transient errors. An error also counts if one of these led to it (its
                `__cause__` or `__context__`), because clients wrap errors of the network.
            seconds: how long to repeat a function; 0 for never. It is the default of the query's
                option `retrySeconds`, and `pause` that of `retryPauseMillis`.
            pause: the first pause, in seconds.
            transient: `transient(error)` recognizes a client's own errors, such as those with
                certain codes. It sees what your function raised, not what led to that. With it,
                only the `errors` that you name count besides.
            option: the query's option for `seconds`, under another name. If you declare this option
                yourself, its value counts, in milliseconds if the name ends in `Ms` or `Millis`,
                and there is no `retryPauseMillis`.

        What is repeated? An instance of a `stream` or a `cursor` starts over as after a restart of
        the query, with `destroy`, `create` and `restore`, and `builder_status` counts it. A task
        that reads starts over as long as Spark has none of its rows. In a task of a sink, only
        `create` is repeated, because `receive` and `flush` have consumed rows. Functions beside the
        driver are called again, on a new connection. Each retry is logged, by Spark's driver or by
        the task. When the time is up, the error says how long it was tried, and names the option.
        """
        wrong = [error for error in errors if not isinstance(error, type)]
        if wrong or seconds < 0 or not pause > 0:
            raise ValueError(
                f"format `{self._name}`: `retry` takes classes of errors, `seconds` from 0 on and "
                f"a `pause` above 0, got {wrong or (seconds, pause)}"
            )
        if transient is not None:
            checked("transient", transient, "error")
        default = () if transient else Retries.errors
        self._retries = Retries(errors or default, seconds, pause, transient, option)
        return self

    def _set(
        self, name: str, function: Function, *parameters: str, may_yield: bool = False
    ) -> Self:
        self._given[name] = checked(name, function, *parameters, may_yield=may_yield)
        return self

    def _require(self, *names: str) -> None:
        for name in names:
            if name not in self._given:
                raise ValueError(f"format `{self._name}`: the function `{name}` is missing")

    def _functions(self) -> Functions:
        """Raises `ValueError` if one cannot travel."""
        parsers = {f"option {option.name}": option.parse for option in self._options}
        schema = {"schema": self._schema} if callable(self._schema) else {}
        transient = self._retries.transient
        retry = {"retry": transient} if transient else {}
        check_travel(self._name, {**self._given, **parsers, **schema, **retry}, self._OPENS)
        names = {declared.name for declared in self._options}
        retries = replace(self._retries, declared=self._retries.option in names)
        return Functions(self._name, dict(self._given), retries)

    def _all_options(self, *own: Option) -> Options:
        """The options of this format: the builder's `own`, then those that were declared."""
        if self._retries.option not in {option.name for option in self._options}:
            own += tuple(self._retries.options())
        taken = {option.name.lower() for option in own}
        for option in self._options:
            if option.name.lower() in taken:
                raise ValueError(
                    f"format `{self._name}`: option `{option.name}` is there already; choose "
                    "another name"
                )
            taken.add(option.name.lower())
        return Options(self._name, (*own, *self._options))


def _check_default(option: Option) -> None:
    """A text, as a query gives it, is no value: "false" is true."""
    if not isinstance(option.default, str):
        return
    try:
        value = option.parse(option.default)
    except ValueError:
        told = f"must be {option.takes}"
    else:
        if value == option.default:
            return
        told = f"is not parsed: say {value!r}"
    raise ValueError(f"option {option.name}: the default {option.default!r} {told}")


class SplitsDeclaration(Declaration):
    """For sources whose functions share what `connect` opens in each process."""

    _OPENS = "`.connect`", "`context.connection`"

    def connect(self, function: Callable[[OptionValues], Any]) -> Self:
        """`connect(options)` opens what the other functions find in `context.connection`.

        It is called in each process that needs it, once: beside the driver, as long as the query
        runs, and in each task that reads.
        """
        return self._set("connect", function, "options")

    def close(self, function: Callable[[Any], object]) -> Self:
        """`close(connection)` closes what `connect` opened, also after an error."""
        return self._set("close", function, "connection")


class InstancesDeclaration(Declaration, Generic[State]):
    """For sources whose functions run in instances, each with a state that `create` makes."""

    _MOST_INSTANCES = 1

    def __init__(self, name: str, schema: Schema, create: Callable[[SourceContext], State]) -> None:
        super().__init__(name, schema)
        self._count = 1
        self._set("create", create, "context")

    def destroy(self, function: Callable[[State], object]) -> Self:
        """`destroy(state)` closes what `create` opened: once, also after an error."""
        return self._set("destroy", function, "state")

    def distributed(self, count: int) -> Self:
        """That many instances, unless the query's option `parallelism` says otherwise.

        `create` must give each a share of its own by `context.index` and `context.count`. Where it
        does not look at them, each instance gives all rows, so a query with `parallelism=2` has
        every row twice. And it must return a new state each time: what the functions keep elsewhere
        (in a module, or in the object whose methods they are) is one for all instances, which would
        give only the last one's share.
        """
        if not isinstance(count, int) or not 1 <= count <= self._MOST_INSTANCES:
            raise ValueError(
                f"format `{self._name}`: `distributed` takes 1..{self._MOST_INSTANCES}, "
                f"got {count!r}"
            )
        self._count = count
        return self

    def _parallelism(self, meaning: str) -> Option:
        most = self._MOST_INSTANCES
        return Option("parallelism", integer(1, most), self._count, meaning)
