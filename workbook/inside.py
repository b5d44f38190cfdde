"""Inner workings that lessons show: the frames of a log, and the doctor's findings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spark_connector_tests.query_process import QueryProcess as QueryProcess
from spark_connector_tests.query_process import wait_until as wait_until
from tutorial_pkg.builder.frames import batches_of, head_of
from tutorial_pkg.connectors.network_lines.payload import split
from tutorial_pkg.durable_log.segments import newest_frames, read_frames
from tutorial_pkg.session.doctor import examine as doctor  # noqa: F401


def frames(log: Path) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield each frame that a source of the builder has written to `log`: its head and its rows."""
    for _, payload in read_frames(log, 0, _size(log)):
        yield head_of(payload), [row for batch in batches_of(payload) for row in batch.to_pylist()]


def newest_frame(log: Path, sender: str) -> tuple[bytes, str]:
    """Return the last line in a port's log, and the position of `sender` in the same frame."""
    *_, (_, payload) = newest_frames(log, _size(log))
    lines, note = split(payload)
    entries = note["positions"][sender]["entries"]
    position = ",".join(f'"{key}":{text}' for key, text in entries.items())
    return bytes(lines).splitlines()[-1], f"{{{position}}}"


def _size(log: Path) -> int:
    return sum(file.stat().st_size for file in log.glob("*.segment"))
