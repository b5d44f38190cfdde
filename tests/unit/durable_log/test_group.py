"""Offsets by number and the logs they point into; here the numbers are ports."""

from __future__ import annotations

import re
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
    """Ports 1 and 2; ten frames of one line are in the log of 1, two are in that of 2."""
    opened = LogGroup(tmp_path, [1, 2], "port")
    for port, count in ((1, 10), (2, 2)):
        for _ in range(count):
            opened.writers[port].append(LINE, 1, 0)
    yield opened
    opened.close()


def at(logs: LogGroup, one: int, two: int) -> LogOffset:
    """An offset by frames."""
    return LogOffset({1: one * FRAME, 2: two * FRAME}, logs.id)


def test_offset_is_json_keyed_by_number_with_the_id_of_the_logs() -> None:
    offset = LogOffset({11001: 7, 11000: 5}, "9f3c21aa")
    assert offset.to_json() == {"11000": 5, "11001": 7, "log": "9f3c21aa"}
    assert LogOffset.from_json(offset.to_json()) == offset


def test_offset_of_version_0_1_0_has_no_id_and_fits_any_log(logs: LogGroup) -> None:
    offset = LogOffset.from_json({"1": FRAME, "2": 0})
    assert offset.to_json() == {"1": FRAME, "2": 0}
    logs.check(offset)


def test_ports_share_a_limit_and_each_gives_at_least_one_frame(logs: LogGroup) -> None:
    start, end = logs.first(), logs.sync()
    assert (start, end) == (at(logs, 0, 0), at(logs, 10, 2))
    assert logs.limited(start, end, Limits(rows=6)) == at(logs, 4, 2)  # and no row less than 6
    assert logs.limited(start, end, Limits(size=8 * len(LINE))) == at(logs, 6, 2)
    assert logs.limited(start, end, Limits(8, 2 * len(LINE))) == at(logs, 1, 1)
    assert logs.limited(start, end, Limits(rows=1)) == at(logs, 1, 1)
    assert (
        logs.limited(start, end, Limits(100, 10_000)) == logs.limited(start, end, Limits()) == end
    )


def test_a_port_that_has_nothing_leaves_its_share_to_the_others(logs: LogGroup) -> None:
    assert logs.limited(at(logs, 4, 2), logs.end(), Limits(rows=4)) == at(logs, 8, 2)
    assert logs.limited(logs.end(), logs.end(), Limits(rows=4)) == logs.end()


def test_slices_give_every_frame_once(logs: LogGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "MIN_SLICE_BYTES", 3 * FRAME)
    monkeypatch.setattr(group, "MAX_SLICE_BYTES", 3 * FRAME)
    found = list(logs.slices(at(logs, 1, 0), logs.end()))
    assert [(part.number, part.start // FRAME, part.end // FRAME) for part in found] == [
        (1, 1, 4),
        (1, 4, 7),
        (1, 7, 10),
        (2, 0, 2),
    ]
    for part in found:
        rows = sum(frame.rows for frame, _ in read_frames(part.directory, part.start, part.end))
        assert rows == (part.end - part.start) // FRAME
    assert list(logs.slices(logs.end(), logs.end())) == []


def test_little_is_one_slice(logs: LogGroup) -> None:
    assert [part.number for part in logs.slices(logs.first(), logs.end())] == [1, 2]


def test_old_ports_are_found_and_new_ones_begin_empty(tmp_path) -> None:
    old = LogGroup(tmp_path, [1, 2], "port")
    old.writers[1].append(LINE, 1, 0)
    old.close()
    new = LogGroup(tmp_path, [3], "port")
    assert new.completed(LogOffset({1: 0})) == LogOffset({1: 0, 2: 0, 3: 0})
    assert new.end() == LogOffset({1: FRAME, 2: 0, 3: 0}, new.id)
    new.close()


@pytest.mark.parametrize(("port", "position", "holds"), [(1, 341, "0 to 340"), (7, 1, "0 to 0")])
def test_offset_that_is_not_in_the_log(
    tmp_path: Path, logs: LogGroup, port: int, position: int, holds: str
) -> None:
    logs.check(logs.first())
    logs.check(logs.end())
    text = (
        f"the checkpoint has read port {port} up to position {position}, but the log "
        f"{tmp_path}/{port} holds {holds}. It was deleted, truncated or replaced, so rows would be "
        "lost: restore it, or start again with a new checkpoint"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        logs.check(LogOffset({port: position}))


def test_an_exchanged_log_is_refused_even_when_it_holds_the_position(tmp_path: Path) -> None:
    first = filled(tmp_path, lines=3)
    offset = first.end()
    first.close()
    shutil.rmtree(tmp_path)
    second = filled(tmp_path, lines=9)
    text = (
        f"the checkpoint belongs to the log with the id {first.id}, but that in {tmp_path} has "
        f"{second.id}. It was deleted, truncated or replaced, so rows would be lost: restore it, "
        "or start again with a new checkpoint"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        second.check(offset)
    second.close()


def test_the_id_stays(tmp_path: Path) -> None:
    first = filled(tmp_path, lines=1)
    first.close()
    second = filled(tmp_path, lines=1)
    second.check(first.end())
    second.close()
    assert second.id == first.id


def test_what_else_lies_in_the_folder_is_no_log(tmp_path: Path) -> None:
    for name in ("²", "07", "copy of 1"):
        (tmp_path / name).mkdir()
    (tmp_path / "8").touch()
    logs = filled(tmp_path, lines=1)
    assert list(logs.writers) == [1]
    logs.close()


def filled(directory: Path, lines: int) -> LogGroup:
    logs = LogGroup(directory, [1], "port")
    for _ in range(lines):
        logs.writers[1].append(LINE, 1, 0)
    return logs


def test_waiting_ends_with_what_is_appended(logs: LogGroup) -> None:
    """Not before, not at an older frame, and at once if there is more already."""
    known = logs.end()
    logs.wait_for_more(known, 0.01)
    assert logs.end() == known
    waiting = threading.Thread(target=logs.wait_for_more, args=(known, 60))
    waiting.start()
    logs.writers[1].append(b"more\n", 1, 0)
    waiting.join(30)
    assert not waiting.is_alive()
    logs.wait_for_more(known, 60)
