"""Connector options, declared once: validation, error text and documentation come from here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import indent
from types import SimpleNamespace
from typing import Any, TypeVar

from tutorial_pkg.core.secrets import Secret, redacted

Parser = TypeVar("Parser", bound=Callable[[str], Any])
MOST = 2**63 - 1

# Spark adds these to what the user wrote; they are not options of ours.
ADDED_BY_SPARK = frozenset({"checkpointlocation", "queryname"})

# What Spark adds in `CREATE TABLE … USING`; it keeps such tables, but not their options.
ADDED_BY_TABLES = frozenset({"owner", "provider"})
NO_TABLES = (
    "Spark 4.3 reads a table of a Python format without its options; "
    "use `CREATE TEMPORARY VIEW name USING format OPTIONS (path '…')`, or `load(path)`"
)


FAMILY = ".*"  # at the end of a name, for all options that begin so


class REQUIRED:
    """The default of an option that has none; a class, so that it stays itself when pickled."""


class OptionValues(SimpleNamespace):
    """The options of a query: `options.url`, or `options["from"]` where Python needs its words."""

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no option `{name}` is declared: add `.option({name!r}, ...)`")


@dataclass(frozen=True)
class Option:
    """One option of a connector.

    `parse` turns the text that Spark hands over into a value and raises `ValueError` when it
    cannot; `takes` is how the error and the documentation describe what it accepts: `allowed`, or
    else what the parser says. A name that ends in `.*` is a family: its value is a dictionary of
    all options that begin so, by what follows the dot: in small letters, as Spark hands it over.
    """

    name: str
    parse: Callable[[str], Any]
    default: Any
    meaning: str
    allowed: str | None = None

    @property
    def takes(self) -> str:
        """In words, what this option accepts."""
        parser = getattr(self.parse, "__name__", type(self.parse).__name__)
        return self.allowed or getattr(self.parse, "allowed", None) or f"what `{parser}` takes"


def accepts(allowed: str) -> Callable[[Parser], Parser]:
    """A decorator for parsers: in words, what it takes, for options that users declare."""

    def note(parse: Parser) -> Parser:
        parse.__dict__["allowed"] = allowed
        return parse

    return note


def integer(low: int, high: int = MOST, unit: str = "") -> Callable[[str], int]:
    """A parser for whole numbers from `low` to `high`, both included, in plain digits."""
    numbers = f"{low} or more" if high == MOST else f"{low}..{high}"

    @accepts(f"{numbers} {unit}".strip())
    def parse(text: str) -> int:
        # Python's `int` takes `1_000`, blanks, and the digits of every script.
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", str(text)) or not low <= int(text) <= high:
            raise ValueError
        return int(text)

    return parse


def choice(*words: str) -> Callable[[str], str]:
    """A parser for one of `words`, whatever its case."""
    known = {word.lower(): word for word in words}

    @accepts(" or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words))
    def parse(text: str) -> str:
        if text.lower() not in known:
            raise ValueError
        return known[text.lower()]

    return parse


@accepts("true or false")
def boolean(text: str) -> bool:
    """A parser for `true` and `false`."""
    return choice("true", "false")(str(text)) == "true"


@accepts("any text but the empty one")
def not_empty(text: str) -> str:
    """A parser for any text but the empty one."""
    if not text.strip():
        raise ValueError
    return text


@accepts("names with commas between them")
def names(text: str) -> tuple[str, ...]:
    """A parser for `a, b`: each name once."""
    if re.match(r"[\[({]['\"]", text):  # a list or the like, of which Spark has made a text
        raise ValueError
    found = tuple(not_empty(name).strip() for name in text.split(","))
    if len(set(found)) < len(found):
        raise ValueError
    return found


@accepts("a local directory")
def local_directory(text: str) -> str:
    """A parser for a directory of this machine's file system; the absolute path.

    `~` is the user's home, and `file:` may stand before an absolute path. Another file system's
    name would otherwise become a local folder called `s3a:`, and people would think their data
    were in the bucket.
    """
    path = re.sub(r"^file:(//)?(?=/)", "", not_empty(text))
    if re.match(r"[A-Za-z][\w+.-]*:/", path):
        raise ValueError
    return str(Path(path).expanduser().absolute())


@accepts("a text; `${env:NAME}` in it is an environment variable")
def secret(text: str) -> Secret:
    """A parser for what nobody should see; `.reveal()` gives it to the code that connects."""
    return Secret(text)


class Options:
    """The options that one connector takes."""

    def __init__(self, format_name: str, declared: Iterable[Option]) -> None:
        self.format_name = format_name
        self.declared = {option.name.lower(): option for option in declared}

    def parse(self, given: Mapping[str, str]) -> OptionValues:
        """Validate what the user gave and return every option's value under its name.

        Raises `ValueError` that names the option, its value (without passwords) and what is
        allowed.
        """
        self._check_names({name.lower(): name for name in given})
        values = {name.lower(): value for name, value in given.items()}
        return OptionValues(
            **{option.name: self._value(option, values) for option in self.declared.values()}
        )

    def table(self) -> str:
        """The options as lines of text for a docstring, in the order of declaration."""
        return "\n".join(
            f"    {option.name} ({option.takes}; {_default_text(option)}): {option.meaning}"
            for option in self.declared.values()
        )

    def _check_names(self, given: Mapping[str, str]) -> None:
        """`given` are the names as the user wrote them, by their small letters."""
        if given.keys() >= ADDED_BY_TABLES:
            raise ValueError(f"format `{self.format_name}`: {NO_TABLES}")
        if "paths" in given and "path" in self.declared:
            raise ValueError(
                f"format `{self.format_name}`: it reads one path, and `load` got several; load "
                "each by itself and put them together with `union`"
            )
        families = tuple(name[:-1] for name in self.declared if name.endswith(FAMILY))
        for name in given.keys() - self.declared.keys() - ADDED_BY_SPARK:
            if not name.startswith(families):
                raise ValueError(self._unknown_text(given[name]))

    def _value(self, option: Option, values: Mapping[str, str]) -> Any:
        if option.name.endswith(FAMILY):
            return self._family(option, values)
        text = values.get(option.name.lower())
        if text is None:
            if option.default is REQUIRED:
                raise ValueError(self._missing_text(option, values))
            return option.default
        try:
            value = option.parse(text)
        except ValueError:
            value = None
        if value is None:  # as of `dict.get`
            raise ValueError(
                f"format `{self.format_name}`: option `{option.name}` must be "
                f"{option.takes}, got {redacted(text, option.name)!r}"
            )
        return value

    def _family(self, family: Option, values: Mapping[str, str]) -> dict[str, Any]:
        prefix = family.name.lower()[:-1]
        names = [name for name in values if name.startswith(prefix)]
        each = {name: replace(family, name=name) for name in names}
        return {name[len(prefix) :]: self._value(each[name], values) for name in names}

    def _missing_text(self, option: Option, values: Mapping[str, str]) -> str:
        table = "" if values else f". If this is a table: {NO_TABLES}"
        return (
            f"format `{self.format_name}`: option `{option.name}` is missing; "
            f"give {option.takes}: {option.meaning}{table}"
        )

    def _unknown_text(self, name: str) -> str:
        near = difflib.get_close_matches(name.lower(), self.declared, n=1)
        hint = f"did you mean `{self.declared[near[0]].name}`?" if near else "remove it."
        known = ", ".join(f"`{option.name}`" for option in self.declared.values())
        return f"format `{self.format_name}`: unknown option `{name}`; {hint} It takes {known}."


def documented(options: Options) -> Callable[[type], type]:
    """A class decorator that puts the table of `options` where `{options}` stands."""

    def fill(cls: type) -> type:
        marked = re.compile(r"^( *)\{options\}", re.M)  # Python 3.13 keeps no indentation
        text = cls.__doc__ or ""
        cls.__doc__ = marked.sub(lambda at: indent(options.table(), at[1]), text)
        return cls

    return fill


def _default_text(option: Option) -> str:
    if option.default is None:
        return "not set by default"
    return "required" if option.default is REQUIRED else f"default {option.default}"
