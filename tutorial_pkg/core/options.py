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
FAMILY = ".*"  # at the end of a name: all options with this prefix


class REQUIRED:
    """The default of a required option; a class, so that it is the same after pickling."""


class OptionValues(SimpleNamespace):
    """The options of a query: `options.url`, or `options["from"]` for Python's keywords."""

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"no option `{name}` is declared; {_hint(name, vars(self))}", name=name
        )


def _hint(name: str, declared: Iterable[str]) -> str:
    names = {option.lower(): option for option in declared}
    near = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f"did you mean `{names[near[0]]}`? " if near else ""
    return f"{hint}It takes {', '.join(f'`{option}`' for option in names.values())}."


@dataclass(frozen=True)
class Option:
    """One option of a connector.

    `parse` turns the text from Spark into a value, or raises `ValueError`. `allowed` describes the
    accepted values, unless the parser does (`accepts`). A name that ends in `.*` is a family: its
    value is a dictionary of all options with this prefix, by the rest of the name, in lower case.
    """

    name: str
    parse: Callable[[str], Any]
    default: Any
    meaning: str
    allowed: str | None = None

    @property
    def takes(self) -> str:
        parser = getattr(self.parse, "__name__", type(self.parse).__name__)
        return self.allowed or getattr(self.parse, "allowed", None) or f"a value for `{parser}`"


def accepts(allowed: str) -> Callable[[Parser], Parser]:
    """Decorate a parser with a description of the values that it accepts."""

    def note(parse: Parser) -> Parser:
        parse.__dict__["allowed"] = allowed
        return parse

    return note


def integer(low: int, high: int = MOST, unit: str = "") -> Callable[[str], int]:
    """Return a parser for integers from `low` to `high`, both included, in plain digits."""
    numbers = f"{low} or more" if high == MOST else f"{low}..{high}"

    @accepts(f"{numbers} {unit}".strip())
    def parse(text: str) -> int:
        # Python's `int` takes `1_000`, blanks, and the digits of every script.
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", str(text)) or not low <= int(text) <= high:
            raise ValueError
        return int(text)

    return parse


def choice(*words: str) -> Callable[[str], str]:
    """Return a parser for one of `words`, in any case."""
    known = {word.lower(): word for word in words}

    @accepts(" or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words))
    def parse(text: str) -> str:
        if text.lower() not in known:
            raise ValueError
        return known[text.lower()]

    return parse


@accepts("true or false")
def boolean(text: str) -> bool:
    """Parse `true` or `false`."""
    return choice("true", "false")(str(text)) == "true"


@accepts("a text that is not empty")
def not_empty(text: str) -> str:
    """Parse any text that is not empty."""
    if not text.strip():
        raise ValueError
    return text


@accepts("names with commas between them")
def names(text: str) -> tuple[str, ...]:
    """Parse `a, b`: distinct names."""
    parts = tuple(not_empty(name).strip() for name in text.split(","))
    if len(set(parts)) < len(parts):
        raise ValueError
    return parts


@accepts("a local directory")
def local_directory(text: str) -> str:
    """Parse a directory on this machine; return its absolute path.

    `~` is your home, and an absolute path may start with `file:`. The name of a different file
    system is refused: it would otherwise become a local folder called `s3a:`.
    """
    path = re.sub(r"^file:(//)?(?=/)", "", not_empty(text))
    if re.match(r"[A-Za-z][\w+.-]*:/", path):
        raise ValueError
    return str(Path(path).expanduser().absolute())


@accepts("a text; `${env:NAME}` in it is an environment variable")
def secret(text: str) -> Secret:
    """Parse a secret; `.reveal()` returns it to the code that connects."""
    return Secret(text)


class Options:
    """The declared options of one connector."""

    def __init__(self, format_name: str, declared: Iterable[Option]) -> None:
        self.format_name = format_name
        self.declared = {option.name.lower(): option for option in declared}

    def parse(self, given: Mapping[str, str]) -> OptionValues:
        """Validate a query's options and return every option's value under its name.

        Raises `ValueError` that names the option, its value (without passwords) and the allowed
        values.
        """
        self._check_names(given)
        values = {name.lower(): value for name, value in given.items()}
        return OptionValues(
            **{option.name: self._value(option, values) for option in self.declared.values()}
        )

    def table(self) -> str:
        lines = []
        for option in self.declared.values():
            default = "required" if option.default is REQUIRED else f"default {option.default}"
            default = "not set by default" if option.default is None else default
            lines.append(f"    {option.name} ({option.takes}; {default}): {option.meaning}")
        return "\n".join(lines)

    def _check_names(self, given: Iterable[str]) -> None:
        families = tuple(name[:-1] for name in self.declared if name.endswith(FAMILY))
        for name in given:
            lower = name.lower()
            if lower in self.declared.keys() | ADDED_BY_SPARK or lower.startswith(families):
                continue
            hint = _hint(name, (option.name for option in self.declared.values()))
            raise ValueError(f"format `{self.format_name}`: unknown option `{name}`; {hint}")

    def _value(self, option: Option, values: Mapping[str, str]) -> Any:
        if option.name.endswith(FAMILY):
            return self._family(option, values)
        text = values.get(option.name.lower())
        if text is None and option.default is REQUIRED:
            raise ValueError(
                f"format `{self.format_name}`: option `{option.name}` is missing; "
                f"give {option.takes}: {option.meaning}"
            )
        if text is None:
            return option.default
        try:
            return option.parse(text)
        except ValueError:
            raise ValueError(
                f"format `{self.format_name}`: option `{option.name}` must be "
                f"{option.takes}, got {redacted(text, option.name)!r}"
            ) from None

    def _family(self, family: Option, values: Mapping[str, str]) -> dict[str, Any]:
        prefix = family.name.lower()[:-1]
        names = [name for name in values if name.startswith(prefix)]
        members = {name: replace(family, name=name) for name in names}
        return {name[len(prefix) :]: self._value(members[name], values) for name in names}


def documented(options: Options) -> Callable[[type], type]:
    """A class decorator that puts the table of `options` where `{options}` stands."""

    def fill(cls: type) -> type:
        marked = re.compile(r"^( *)\{options\}", re.M)  # Python 3.13 keeps no indentation
        text = cls.__doc__ or ""
        cls.__doc__ = marked.sub(lambda at: indent(options.table(), at[1]), text)
        return cls

    return fill
