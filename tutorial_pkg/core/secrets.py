"""Secrets in options: they may name an environment variable, and no message shows them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

_REFERENCE = re.compile(r"\$\{env:(\w+)\}")
# Of an option, or of what is written as `name=value` within one.
_NAMES = r"passw(?:or)?d|pwd|secret|token|jaas|credential|api.?key|access.?key"


@dataclass(frozen=True)
class Secret:
    """A text that nothing prints by accident; `${env:NAME}` in it is an environment variable.

    The variable is looked up where the text is used, in the process that connects. So what it holds
    is in no program, no plan, no checkpoint and in nothing that is pickled.
    """

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """The text with its variables. Raises `ValueError` for one that is not set here."""
        missing = [name for name in _REFERENCE.findall(self._text) if name not in os.environ]
        if missing:
            raise ValueError(
                f"an option refers to the environment variable `{missing[0]}`, which is not set in "
                "this process; set it where Spark is started, for the driver and for the workers"
            )
        return _REFERENCE.sub(lambda found: os.environ[found[1]], self._text)

    @property
    def is_reference(self) -> bool:
        """Whether it is nothing but the name of a variable, so that anyone may see it."""
        return bool(_REFERENCE.fullmatch(self._text.strip()))

    def __str__(self) -> str:
        """As it was written, for errors: `nats://***@host`, `${env:NAME}`."""
        return redacted(self._text)


def redacted(text: str, name: str = "") -> str:
    """`text` without what may be a secret: in a URL before an `@`, behind `password=`.

    `name` is that of the option which holds the text: behind `kafka.sasl.password` all is secret.
    """
    if re.search(rf"{_NAMES}|pem$", name, re.I):
        return "***"
    text = re.sub(rf"""(?is)((?:{_NAMES})\w*["']?\s*[=:]).*""", r"\1***", text)
    return re.sub(r"(?s)(://).*@|^[^/@]*:(?!//).*@", r"\1***@", text)
