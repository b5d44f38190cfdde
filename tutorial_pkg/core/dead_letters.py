"""Dead letters: data that a source can't read, set aside in a folder instead of ending the query.

A file has a JSON object in each line. Its name depends only on where the data is in the source. So
a batch that is repeated replaces its files, instead of adding more.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from tutorial_pkg.core.disk import replace_file

_log = logging.getLogger(__name__)


class DeadLetters:
    """The rows that one task, one page or one `fill` could not add. `save` writes them."""

    def __init__(self, folder: str, source: str) -> None:
        self._folder, self._source = Path(folder), source
        self._rows: list[tuple[Any, str]] = []

    def add(self, row: Any, problem: object) -> None:
        self._rows.append((row, str(problem)))

    def save(self, *position: Any) -> int:
        """Write the file for this position in the source, and return how many rows it has."""
        rows, self._rows = self._rows, []
        file = self._folder / file_name(*position)
        if rows:
            self._folder.mkdir(parents=True, exist_ok=True)
            lines = [letter(self._source, position, text, row=row) for row, text in rows]
            replace_file(file, b"".join(lines))
            warn(self._source, f"{len(rows)} rows", file, rows[0][1])
        else:  # an earlier attempt may have had some
            file.unlink(missing_ok=True)
        return len(rows)


def file_name(*position: Any) -> str:
    digest = hashlib.sha256(json.dumps(position, default=repr).encode()).hexdigest()
    return f"{digest[:24]}.jsonl"


def letter(source: str, position: Any, problem: str, **data: Any) -> bytes:
    """Return the line for one row or object. Bytes become base64, other objects their `repr`."""
    content = {"source": source, "position": position, "problem": problem, **data}
    try:
        text = json.dumps(content, default=_as_json)
    except (TypeError, ValueError):  # a dictionary with other keys, or one that contains itself
        text = json.dumps(content | {name: repr(value) for name, value in data.items()})
    return text.encode() + b"\n"


def _as_json(value: Any) -> str:
    is_bytes = isinstance(value, bytes | bytearray)
    return base64.b64encode(value).decode() if is_bytes else repr(value)


def warn(source: str, what: str, place: object, problem: str) -> None:
    _log.warning("format `%s`: %s left out, see %s: %s", source, what, place, problem)
