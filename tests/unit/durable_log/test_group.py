"""Offsets by number and the logs they point into; here the numbers are ports."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tutorial_pkg.core.read_limit import Limits
from tutorial_pkg.durable_log import group
from tutorial_pkg.durable_log.group import LogGroup, LogOffset
from tutorial_pkg.durable_log.segments import HEADER_BYTES, read_frames

LINE = b"123456789\n"
FRAME = HEADER_BYTES + len(LINE)


@pytest.fixture
def logs(tmp_path) -> Iterator[LogGroup]:
    """Ports 1 and 2; the log of 1 has ten frames of one line, that of 2 has two."""
    opened = LogGroup(tmp_path, [1, 2], "port")
    for port, count in ((1, 10), (2, 2)):
        for _ in range(count):
            opened.writers[port].append(LINE, 1, 0)
    yield opened
    opened.close()


def filled(directory: Path, lines: int) -> LogGroup:
    logs = LogGroup(directory, [1], "port")
    for _ in range(lines):
        logs.writers[1].append(LINE, 1, 0)
    return logs


def at(logs: LogGroup, one: int, two: int) -> LogOffset:
    """Return an offset, counted in frames."""
    return LogOffset({"1": one * FRAME, "2": two * FRAME}, logs.end().ids)


@pytest.mark.parametrize(
    ("json", "offset"),
    [
        ({"11000": 5, "11001": 7, "log": "9f"}, LogOffset({"11000": 5, "11001": 7}, {"": "9f"})),
        ({"a/1": 5, "log": {"a": "9f"}}, LogOffset({"a/1": 5}, {"a": "9f"})),
        ({"1": 5}, LogOffset({"1": 5})),  # by the first version
    ],
)
def test_offset_as_json(json, offset: LogOffset) -> None:
    assert LogOffset.from_json(json) == offset
    assert offset.to_json() == json


def test_offset_without_id_fits_any_log(logs: LogGroup) -> None:
    logs.checked(LogOffset.from_json({"1": FRAME, "2": 0}))


def test_ports_share_a_limit(logs: LogGroup) -> None:
    start, end = logs.first(), logs.sync()
    assert (start, end) == (at(logs, 0, 0), at(logs, 10, 2))
    assert logs.limited(start, end, Limits(rows=6)) == at(logs, 4, 2)
    assert logs.limited(start, end, Limits(size=8 * len(LINE))) == at(logs, 6, 2)
    assert logs.limited(start, end, Limits(8, 2 * len(LINE))) == at(logs, 1, 1)
    assert logs.limited(start, end, Limits(rows=1)) == at(logs, 1, 1)
    assert logs.limited(start, end, Limits(100, 10_000)) == end
    assert logs.limited(at(logs, 4, 2), end, Limits(rows=4)) == at(logs, 8, 2)
    assert logs.limited(end, end, Limits(rows=4)) == end


def test_slices_cover_every_frame_once(logs: LogGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [part.number for part in logs.slices(logs.first(), logs.end())] == ["1", "2"]
    monkeypatch.setattr(group, "MIN_SLICE_BYTES", 3 * FRAME)
    monkeypatch.setattr(group, "MAX_SLICE_BYTES", 3 * FRAME)
    parts = list(logs.slices(at(logs, 1, 0), logs.end()))
    assert [(part.number, part.start // FRAME, part.end // FRAME) for part in parts] == [
        ("1", 1, 4),
        ("1", 4, 7),
        ("1", 7, 10),
        ("2", 0, 2),
    ]
    for part in parts:
        rows = sum(frame.rows for frame, _ in read_frames(part.directory, part.start, part.end))
        assert rows == (part.end - part.start) // FRAME
    assert list(logs.slices(logs.end(), logs.end())) == []


def test_old_ports_stay_and_new_ones_begin_empty(tmp_path) -> None:
    filled(tmp_path, lines=1).close()
    for name in ("²", "07", "copy of 1"):
        (tmp_path / name).mkdir()
    new = LogGroup(tmp_path, [3], "port")
    assert new.checked(LogOffset({"1": 0})).positions == {"1": 0, "3": 0}
    assert new.end() == LogOffset({"1": FRAME, "3": 0}, new.end().ids)
    new.close()


@pytest.mark.parametrize(("port", "position", "range_"), [(1, 341, "0 to 340"), (7, 1, "0 to 0")])
def test_position_beyond_the_log(logs: LogGroup, port: int, position: int, range_: str) -> None:
    logs.checked(logs.first())
    logs.checked(logs.end())
    with pytest.raises(ValueError, match=f"port {port} up to position {position}.*{range_}"):
        logs.checked(LogOffset({str(port): position}))


def test_replaced_log_is_refused(tmp_path: Path) -> None:
    first = filled(tmp_path, lines=3)
    first.close()
    again = filled(tmp_path, lines=0)
    again.checked(first.end())
    again.close()
    shutil.rmtree(tmp_path)
    second = filled(tmp_path, lines=9)
    with pytest.raises(ValueError, match=f"{first.id}.*{second.id}"):
        second.checked(first.end())
    second.close()


def test_wait_ends_with_the_next_frame(logs: LogGroup) -> None:
    known = logs.end()
    logs.wait_for_more(known, 0.01)
    assert logs.end() == known
    waiting = threading.Thread(target=logs.wait_for_more, args=(known, 60))
    waiting.start()
    logs.writers[1].append(b"more\n", 1, 0)
    waiting.join(30)
    assert not waiting.is_alive()
    logs.wait_for_more(known, 60)  # returns at once
