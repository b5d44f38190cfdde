"""Offsets by port and the logs they point into."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tutorial_pkg.connectors.network_lines import port_logs
from tutorial_pkg.connectors.network_lines.port_logs import Offset, PortLogs
from tutorial_pkg.core.segment_log import HEADER_BYTES, read_frames

LINE = b"123456789\n"
FRAME = HEADER_BYTES + len(LINE)


@pytest.fixture
def logs(tmp_path) -> Iterator[PortLogs]:
    """Ports 1 and 2; ten frames of one line are in the log of 1, two are in that of 2."""
    opened = PortLogs(tmp_path, [1, 2])
    for port, count in ((1, 10), (2, 2)):
        for _ in range(count):
            opened.writers[port].append(LINE, 1, 0)
    yield opened
    opened.close()


def at(one: int, two: int) -> Offset:
    """An offset by frames."""
    return Offset({1: one * FRAME, 2: two * FRAME})


def test_offset_is_json_keyed_by_port() -> None:
    offset = Offset({11001: 7, 11000: 5})
    assert offset.to_json() == {"11000": 5, "11001": 7}
    assert Offset.from_json(offset.to_json()) == offset


def test_ports_share_a_limit_and_each_gives_at_least_one_frame(logs: PortLogs) -> None:
    start, end = logs.first(), logs.sync()
    assert (start, end) == (at(0, 0), at(10, 2))
    assert logs.limited(start, end, rows=6, size=None) == at(3, 2)
    assert logs.limited(start, end, rows=None, size=8 * len(LINE)) == at(4, 2)
    assert logs.limited(start, end, rows=8, size=2 * len(LINE)) == at(1, 1)
    assert logs.limited(start, end, rows=1, size=None) == at(1, 1)
    assert logs.limited(start, end, rows=100, size=10_000) == end


def test_a_port_that_has_nothing_leaves_its_share_to_the_others(logs: PortLogs) -> None:
    assert logs.limited(at(4, 2), logs.end(), rows=4, size=None) == at(8, 2)
    assert logs.limited(logs.end(), logs.end(), rows=4, size=None) == logs.end()


def test_slices_give_every_frame_once(logs: PortLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_logs, "MIN_SLICE_BYTES", 3 * FRAME)
    monkeypatch.setattr(port_logs, "MAX_SLICE_BYTES", 3 * FRAME)
    found = list(logs.slices(at(1, 0), logs.end()))
    assert [(port, part.start // FRAME, part.end // FRAME) for port, part in found] == [
        (1, 1, 4),
        (1, 4, 7),
        (1, 7, 10),
        (2, 0, 2),
    ]
    for _, part in found:
        rows = sum(frame.rows for frame, _ in read_frames(part.directory, part.start, part.end))
        assert rows == (part.end - part.start) // FRAME
    assert list(logs.slices(logs.end(), logs.end())) == []


def test_little_is_one_slice(logs: PortLogs) -> None:
    assert [port for port, _ in logs.slices(logs.first(), logs.end())] == [1, 2]


def test_old_ports_are_found_and_new_ones_begin_empty(tmp_path) -> None:
    old = PortLogs(tmp_path, [1, 2])
    old.writers[1].append(LINE, 1, 0)
    old.close()
    new = PortLogs(tmp_path, [3])
    assert new.with_all_ports(Offset({1: 0})) == Offset({1: 0, 2: 0, 3: 0})
    assert new.end() == Offset({1: FRAME, 2: 0, 3: 0})
    new.close()


@pytest.mark.parametrize(("port", "position", "holds"), [(1, 341, "0 to 340"), (7, 1, "0 to 0")])
def test_offset_that_is_not_in_the_log(
    tmp_path: Path, logs: PortLogs, port: int, position: int, holds: str
) -> None:
    logs.check(logs.first())
    logs.check(logs.end())
    text = (
        f"the checkpoint has read port {port} up to position {position}, but the log "
        f"{tmp_path}/{port} holds {holds}. It was deleted, cut or exchanged, so lines would be "
        "lost: restore it, or start anew with a new checkpoint"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        logs.check(Offset({port: position}))
