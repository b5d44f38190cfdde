"""What all builders have in common: a name, functions, and options that are declared once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from tutorial_pkg.builder.built import Schema
from tutorial_pkg.builder.context import SourceContext
from tutorial_pkg.builder.functions import Function, Functions, check_travel, checked
from tutorial_pkg.core.options import Option, Options, choice, integer

Parse = Callable[[str], Any]
State = TypeVar("State")  # what `create` returns, and all other functions take
# They make a parser, and are easily given as if they were one.
MAKERS: dict[Any, str] = {integer: "`integer(0)`", choice: '`choice("a", "b")`'}


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

    def option(
        self, name: str, parse: Parse, default: Any, meaning: str, allowed: str | None = None
    ) -> Self:
        """Declare an option: the query's `.option(name, …)` reaches `context.options`.

        `parse` makes a value of the text that Spark hands over, and raises `ValueError` if it
        cannot: `integer(0)`, `choice("a", "b")`, `boolean`, `not_empty` of `tutorial_pkg.builder`,
        or a function of yours. `default` is a value, or `REQUIRED`. `allowed` says in errors what
        the option takes.
        """
        return self.options(Option(name, parse, default, meaning, allowed))

    def options(self, *declared: Option) -> Self:
        """Declare several: `Option(name, parse, default, meaning)`, as those that formats share."""
        for option in declared:
            checked(f"option {option.name}", option.parse, "text")
            if option.parse in MAKERS:
                raise ValueError(f"option {option.name}: say what it takes: {MAKERS[option.parse]}")
        self._options += declared
        return self

    def _set(self, name: str, function: Function, *parameters: str) -> Self:
        self._given[name] = checked(name, function, *parameters)
        return self

    def _require(self, *names: str) -> None:
        for name in names:
            if name not in self._given:
                raise ValueError(f"format `{self._name}`: the function `{name}` is missing")

    def _functions(self) -> Functions:
        """Raises `ValueError` if one cannot travel."""
        parsers = {f"option {option.name}": option.parse for option in self._options}
        schema = {"schema": self._schema} if callable(self._schema) else {}
        check_travel(self._name, {**self._given, **parsers, **schema}, self._OPENS)
        return Functions(self._name, dict(self._given))

    def _all_options(self, *own: Option) -> Options:
        """The options of this format: the builder's `own`, then those that were declared."""
        taken = {option.name.lower() for option in own}
        for option in self._options:
            if option.name.lower() in taken:
                raise ValueError(
                    f"format `{self._name}`: option `{option.name}` is there already; choose "
                    "another name"
                )
            taken.add(option.name.lower())
        return Options(self._name, (*own, *self._options))


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
        """So many instances, unless the query's option `parallelism` says otherwise."""
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
