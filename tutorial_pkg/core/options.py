"""Connector options, declared once: validation, error text and documentation come from here."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

REQUIRED = object()  # the default of an option that has none

# Spark adds these to what the user wrote; they are not options of ours.
ADDED_BY_SPARK = frozenset({"checkpointlocation", "queryname"})


@dataclass(frozen=True)
class Option:
    """One option of a connector.

    `parse` turns the text that Spark hands over into a value and raises `ValueError` when it
    cannot; `allowed` is how the error and the documentation describe what it accepts.
    """

    name: str
    parse: Callable[[str], Any]
    default: Any
    allowed: str
    meaning: str


def integer(low: int, high: int | None = None) -> Callable[[str], int]:
    """A parser for whole numbers from `low` to `high`, both included."""

    def parse(text: str) -> int:
        value = int(text)
        if value < low or (high is not None and value > high):
            raise ValueError
        return value

    return parse


def choice(*words: str) -> Callable[[str], str]:
    """A parser for one of `words`, whatever its case."""
    known = {word.lower(): word for word in words}

    def parse(text: str) -> str:
        if text.lower() not in known:
            raise ValueError
        return known[text.lower()]

    return parse


def boolean(text: str) -> bool:
    """A parser for `true` and `false`."""
    return choice("true", "false")(str(text)) == "true"


def not_empty(text: str) -> str:
    """A parser for any text but the empty one."""
    if not text.strip():
        raise ValueError
    return text


class Options:
    """The options that one connector takes."""

    def __init__(self, format_name: str, declared: Iterable[Option]) -> None:
        self.format_name = format_name
        self.declared = {option.name.lower(): option for option in declared}

    def parse(self, given: Mapping[str, str]) -> SimpleNamespace:
        """Validate what the user gave and return every option's value under its name.

        Raises `ValueError` that names the option, its value and what is allowed.
        """
        unknown = [name for name in given if name.lower() not in self.declared]
        for name in unknown:
            if name.lower() not in ADDED_BY_SPARK:
                raise ValueError(self._unknown_text(name))
        values = {name.lower(): value for name, value in given.items()}
        return SimpleNamespace(
            **{option.name: self._value(option, values) for option in self.declared.values()}
        )

    def table(self) -> str:
        """The options as lines of text for a docstring, in the order of declaration."""
        return "\n".join(
            f"    {option.name} ({option.allowed}; {_default_text(option)}): {option.meaning}"
            for option in self.declared.values()
        )

    def _value(self, option: Option, values: Mapping[str, str]) -> Any:
        text = values.get(option.name.lower())
        if text is None:
            if option.default is REQUIRED:
                raise ValueError(
                    f"format `{self.format_name}`: option `{option.name}` is missing; "
                    f"give {option.allowed}: {option.meaning}"
                )
            return option.default
        try:
            return option.parse(text)
        except ValueError:
            raise ValueError(
                f"format `{self.format_name}`: option `{option.name}` must be "
                f"{option.allowed}, got {text!r}"
            ) from None

    def _unknown_text(self, name: str) -> str:
        near = difflib.get_close_matches(name.lower(), self.declared, n=1)
        hint = f"did you mean `{self.declared[near[0]].name}`?" if near else "remove it."
        known = ", ".join(f"`{option.name}`" for option in self.declared.values())
        return f"format `{self.format_name}`: unknown option `{name}`; {hint} It takes {known}."


def documented(options: Options) -> Callable[[type], type]:
    """A class decorator that puts the table of `options` where `{options}` stands."""

    def fill(cls: type) -> type:
        cls.__doc__ = (cls.__doc__ or "").replace("{options}", options.table().strip())
        return cls

    return fill


def _default_text(option: Option) -> str:
    if option.default is None:
        return "not set by default"
    return "required" if option.default is REQUIRED else f"default {option.default}"
