"""Secrets in options: they may name an environment variable, and no error shows them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

_REFERENCE = re.compile(r"\$\{env:(\w+)\}")
# Names of options, or of `name=value` within one.
_NAMES = r"passw(?:or)?d|pwd|secret|token|jaas|credential|api.?key|access.?key"


@dataclass(frozen=True)
class Secret:
    """A text that is never printed by accident; `${env:NAME}` in it is an environment variable.

    The variable is looked up in the process that connects. So its value is in no program, plan or
    checkpoint, and never pickled.
    """

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """Return the text with its variables. Raises `ValueError` for one that is not set here."""
        missing = [name for name in _REFERENCE.findall(self._text) if name not in os.environ]
        if missing:
            raise ValueError(
                f"an option refers to the environment variable `{missing[0]}`, which is not set in "
                "this process; set it where Spark is started, for the driver and for the workers"
            )
        return _REFERENCE.sub(lambda found: os.environ[found[1]], self._text)

    @property
    def is_reference(self) -> bool:
        """Return whether it is only the name of a variable, and so no secret."""
        return bool(_REFERENCE.fullmatch(self._text.strip()))

    def __str__(self) -> str:
        """Return what errors may show: `nats://***@host`, `${env:NAME}`."""
        return redacted(self._text)


def redacted(text: str, name: str = "") -> str:
    """Return `text` without possible secrets: before an `@` in a URL, after `password=`.

    `name` is the option's name: the whole value of `kafka.sasl.password` is secret.
    """
    if re.search(rf"{_NAMES}|pem$", name, re.I):
        return "***"
    text = re.sub(rf"""(?is)((?:{_NAMES})\w*["']?\s*[=:]).*""", r"\1***", text)
    return re.sub(r"(?s)(://).*@|^[^/@]*:(?!//).*@", r"\1***@", text)
