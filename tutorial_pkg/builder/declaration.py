"""What all builders have in common: a name, functions, and options that are declared once."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar

from tutorial_pkg.builder.built import Schema
from tutorial_pkg.builder.context import SourceContext
from tutorial_pkg.builder.functions import (
    SECONDS,
    Function,
    Functions,
    Retries,
    check_travel,
    checked,
)
from tutorial_pkg.core.options import Option, Options, OptionValues, choice, integer

Parse = Callable[[str], Any]
State = TypeVar("State")  # what `create` returns, and all other functions take
# To Python's `bool`, "false" is true; the other two make a parser, and are none.
MISTAKEN: dict[Any, str] = {bool: "boolean", integer: "integer(0)", choice: 'choice("a", "b")'}


class Declaration:
    """Functions and options, as they are declared one after the other."""

    _OPENS = "`create`", "its state"

    def __init__(self, name: str, schema: Schema = "") -> None:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z]\w*", name):
            raise ValueError(
                f"the name of a format must be letters, digits and `_`, and start with a letter, "
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

        `parse` turns the string that Spark hands over into a value, and raises `ValueError` if it
        cannot: `integer(0)`, `choice("a", "b")`, `boolean`, `not_empty` of `tutorial_pkg.builder`,
        or a function of yours. `default` is a value, such as `False`, or `REQUIRED`. `allowed` says
        in errors what the option takes.
        """
        return self.options(Option(name, parse, default, meaning, allowed))

    def options(self, *declared: Option) -> Self:
        """Declare several options, each an `Option`, which formats can share."""
        for option in declared:
            checked(f"option {option.name}", option.parse, "text")
            if instead := MISTAKEN.get(option.parse):
                raise ValueError(
                    f"option {option.name}: `{option.parse.__name__}` does not parse; "
                    f"use `{instead}`"
                )
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
        error ends the query at once. Pauses double from `pause` up to ten times that, less up to
        half by chance. docs/builder.md lists which functions are repeated, and how.

        Args:
            errors: the transient errors. One also counts if it led to another (as its `__cause__`
                or `__context__`).
            seconds: how long to repeat a function; 0 for never. It is the default of the query's
                option `retrySeconds`, and `pause` that of `retryPauseMillis`.
            pause: the first pause, in seconds.
            transient: `transient(error)` recognizes a client's own errors, as your function raised
                them. With it, only the `errors` that you name count besides.
            option: another name for `retrySeconds`. If you declare this option yourself, its value
                counts, in milliseconds if the name ends in `Ms` or `Millis`, and there is no
                `retryPauseMillis`.
        """
        wrong = [error for error in errors if not isinstance(error, type)]
        if wrong or seconds < 0 or not pause > 0:
            raise ValueError(
                f"format `{self._name}`: `retry` takes classes of errors, `seconds` from 0 on and "
                f"a `pause` above 0, got {wrong or (seconds, pause)}"
            )
        if transient is not None:
            checked("transient", transient, "error")
        errors = errors or (() if transient else Retries.errors)
        self._retries = Retries(errors, seconds, pause, transient, option)
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

    def _check_count(self, count: Any, most: int) -> None:
        if not isinstance(count, int) or not 1 <= count <= most:
            raise ValueError(f"format `{self._name}`: `distributed` takes 1..{most}, got {count!r}")

    def _functions(self) -> Functions:
        """Return what was declared. Raises `ValueError` if a function cannot be pickled."""
        others = {f"option {option.name}": option.parse for option in self._options}
        others |= {"schema": self._schema, "transient": self._retries.transient}  # type: ignore[dict-item]
        pickled = {**self._given, **{name: f for name, f in others.items() if callable(f)}}
        check_travel(self._name, pickled, self._OPENS)
        return Functions(self._name, dict(self._given), self._policy())

    def _policy(self) -> Retries:
        names = {option.name for option in self._options}
        return replace(self._retries, declared=self._retries.option in names)

    def _all_options(self, *own: Option) -> Options:
        """Return the options of the format: the builder's `own`, then those that were declared."""
        options = (*own, *self._policy().options(), *self._options)
        names = [option.name.lower() for option in options]
        for option in self._options:
            if names.count(option.name.lower()) > 1:
                raise ValueError(
                    f"format `{self._name}`: option `{option.name}` exists already; choose "
                    "another name"
                )
        return Options(self._name, options)


class SplitsDeclaration(Declaration):
    """For sources with functions that share what `connect` opens in each process."""

    _OPENS = "`.connect`", "`context.connection`"

    def connect(self, function: Callable[[OptionValues], Any]) -> Self:
        """Open with `connect(options)` what other functions find in `context.connection`.

        It is called once in each process that needs it: beside the driver, and in each task.
        """
        return self._set("connect", function, "options")

    def close(self, function: Callable[[Any], object]) -> Self:
        """Close with `close(connection)` what `connect` opened, also after an error."""
        return self._set("close", function, "connection")


class InstancesDeclaration(Declaration, Generic[State]):
    """For sources with functions that run in instances, each with a state from `create`."""

    _MOST_INSTANCES = 1

    def __init__(self, name: str, schema: Schema, create: Callable[[SourceContext], State]) -> None:
        super().__init__(name, schema)
        self._count = 1
        self._set("create", create, "context")

    def destroy(self, function: Callable[[State], object]) -> Self:
        """Close with `destroy(state)` what `create` opened: once, also after an error."""
        return self._set("destroy", function, "state")

    def distributed(self, count: int) -> Self:
        """Run that many instances, unless the query's option `parallelism` says otherwise.

        `create` must give each its own share, by `context.index` and `context.count`, and its own
        state. Otherwise each instance adds all rows.
        """
        self._check_count(count, self._MOST_INSTANCES)
        self._count = count
        return self

    def _parallelism(self, meaning: str) -> Option:
        return Option("parallelism", integer(1, self._MOST_INSTANCES), self._count, meaning)
