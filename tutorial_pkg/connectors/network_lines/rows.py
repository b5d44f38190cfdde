"""From frames of the log to rows, in a task."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa

from tutorial_pkg.connectors.network_lines.notes import split
from tutorial_pkg.core.lines import to_lines, with_event_time
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.durable_log.reader import Framed
from tutorial_pkg.durable_log.segments import Frame

Noted = tuple[Frame, memoryview, dict[str, Any]]  # a frame, its lines, the note behind them


def to_batch(group: list[Framed], port: int, options: OptionValues) -> pa.RecordBatch:
    """Those of neighbouring frames of a port."""
    found: list[Noted] = [(frame, *split(payload)) for frame, payload in group]
    columns = {"value": _values([(lines, note) for _, lines, note in found])}
    if options.includeMetadata:
        columns |= _metadata(found, port)
    batch = pa.RecordBatch.from_pydict(columns)
    return with_event_time(batch, options.mode) if options.eventTime else batch


def _values(found: list[tuple[memoryview, dict[str, Any]]]) -> pa.Array:
    if any("lengths" in note for _, note in found):
        return pa.concat_arrays([_values_by(note, lines) for lines, note in found])
    return to_lines(found[0][0] if len(found) == 1 else b"".join(lines for lines, _ in found))


def _values_by(note: dict[str, Any], lines: memoryview) -> pa.Array:
    """Rows that may contain newlines themselves: their lengths say where each ends."""
    if "lengths" not in note:
        return to_lines(lines)
    ends = [*accumulate(length + 1 for length in note["lengths"])]
    texts = (bytes(lines[start : end - 1]) for start, end in pairwise([0, *ends]))
    return pa.array([text.decode(errors="replace") for text in texts], pa.string())


def _metadata(
    found: list[tuple[Frame, memoryview, dict[str, Any]]], port: int
) -> dict[str, pa.Array]:
    rows = [frame.rows for frame, _, _ in found]
    frames = pa.concat_arrays([pa.repeat(place, count) for place, count in enumerate(rows)])
    times = pa.array([frame.received_at for frame, _, _ in found], pa.timestamp("us", tz="UTC"))
    clients = pa.array([note.get("client") for _, _, note in found], pa.string())
    return {
        "port": pa.repeat(pa.scalar(port, pa.int32()), sum(rows)),
        "received_at": times.take(frames),
        "client": clients.take(frames),
    }
