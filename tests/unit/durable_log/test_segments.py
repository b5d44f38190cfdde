"""The segment log: what was appended is what is read, or an error says where it is not."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from tutorial_pkg.durable_log.segments import (
    HEADER_BYTES,
    LogDamagedError,
    LogNotVisibleError,
    SegmentWriter,
    frames,
    newest_frames,
    read_frames,
)


def write(directory: Path, payloads: list[bytes], segment_bytes: int = 1 << 20) -> SegmentWriter:
    log = SegmentWriter(directory, segment_bytes)
    for number, payload in enumerate(payloads):
        log.append(payload, payload.count(b"\n"), 1_000 + number)
    return log


def read(directory: Path, start: int, end: int) -> list[bytes]:
    return [bytes(payload) for _, payload in read_frames(directory, start, end)]


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.segment"))


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


PAYLOADS = [b"one\n", b"two\nthree\n", b"\n", b"x" * 20 + b"\n"]


def test_reads_what_was_appended(tmp_path) -> None:
    log = write(tmp_path, PAYLOADS)
    assert read(tmp_path, 0, log.end) == PAYLOADS
    found = list(frames(tmp_path, 0, log.end))
    assert [frame.rows for frame in found] == [1, 2, 1, 1]
    assert [frame.received_at for frame in found] == [1_000, 1_001, 1_002, 1_003]
    assert [frame.position for frame in found] == [0, *(frame.end for frame in found[:-1])]
    assert found[-1].end == log.end == sum(HEADER_BYTES + len(each) for each in PAYLOADS)
    log.close()


def test_any_slice_can_be_read_again(tmp_path) -> None:
    log = write(tmp_path, PAYLOADS, segment_bytes=1)
    ends = [0, *(frame.end for frame in frames(tmp_path, 0, log.end))]
    for first, start in enumerate(ends):
        for last, end in enumerate(ends[first:], first):
            assert read(tmp_path, start, end) == PAYLOADS[first:last]
    log.close()


def test_positions_continue_after_reopening(tmp_path) -> None:
    log = write(tmp_path, [b"%05d\n" % number for number in range(10)], segment_bytes=70)
    names = segments(tmp_path)
    assert len(names) == 4
    assert [int(name.stem) for name in names] == [0, 90, 180, 270]
    log.delete_below(200)
    assert segments(tmp_path) == names[2:]
    assert log.first == 180
    log.close()
    reopened = SegmentWriter(tmp_path)
    assert (reopened.first, reopened.end, reopened.repair) == (180, 300, None)
    reopened.append(b"after\n", 1, 0)
    assert read(tmp_path, 270, reopened.end) == [b"00009\n", b"after\n"]
    reopened.close()


def test_deleted_lines_are_an_error(tmp_path) -> None:
    log = write(tmp_path, PAYLOADS, segment_bytes=1)
    log.delete_below(log.end)
    with pytest.raises(LogDamagedError) as error:
        read(tmp_path, 0, log.end)
    assert str(error.value) == (
        f"{tmp_path}: no segment holds position 0. It was deleted or cut; or host "
        f"{socket.gethostname()} has another folder of this name: put the log on storage that all "
        "workers share"
    )
    log.close()


@pytest.mark.parametrize("kept", range(HEADER_BYTES + len(PAYLOADS[-1])))
def test_torn_last_frame_is_cut_off(tmp_path, caplog, kept: int) -> None:
    log = write(tmp_path, PAYLOADS)
    last = list(frames(tmp_path, 0, log.end))[-1]
    log.close()
    os.truncate(segments(tmp_path)[0], last.position + kept)
    reopened = SegmentWriter(tmp_path)
    assert reopened.end == last.position
    assert read(tmp_path, 0, reopened.end) == PAYLOADS[:-1]
    if kept:
        expected = f"cut off {kept} bytes of an unfinished frame at {last.position}"
        assert expected in "\n".join(caplog.messages)
        assert expected in reopened.repair
    reopened.append(b"next\n", 1, 0)
    assert read(tmp_path, last.position, reopened.end) == [b"next\n"]
    reopened.close()


def test_zeros_at_the_end_are_cut_off(tmp_path) -> None:
    log = write(tmp_path, PAYLOADS)
    end = log.end
    log.close()
    with segments(tmp_path)[0].open("ab") as file:
        file.write(bytes(5_000))
    reopened = SegmentWriter(tmp_path)
    assert (reopened.end, reopened.repair is None) == (end, False)
    reopened.close()


@pytest.mark.parametrize("place", range(HEADER_BYTES + len(PAYLOADS[1])))
def test_flipped_byte_is_an_error(tmp_path, place: int) -> None:
    log = write(tmp_path, PAYLOADS)
    second = list(frames(tmp_path, 0, log.end))[1]
    log.close()
    segment = segments(tmp_path)[0]
    flip(segment, second.position + place)
    expected = (
        f"^segment {re.escape(str(segment))}, position {second.position} .byte 28 of the file"
    )
    with pytest.raises(LogDamagedError, match=expected):
        read(tmp_path, 0, log.end)
    with pytest.raises(LogDamagedError, match=expected):
        SegmentWriter(tmp_path)


def test_missing_segment_is_an_error(tmp_path) -> None:
    log = write(tmp_path, PAYLOADS, segment_bytes=1)
    log.close()
    segments(tmp_path)[1].unlink()
    with pytest.raises(LogDamagedError, match=r"no segment holds position 28\. It was"):
        read(tmp_path, 0, log.end)


def test_full_disk_leaves_whole_frames(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write(tmp_path, PAYLOADS)
    end, writev = log.end, os.writev
    with monkeypatch.context() as full:
        full.setattr(os, "writev", lambda file, parts: writev(file, [parts[0], parts[1][:3]]))
        with pytest.raises(OSError, match=f"^{tmp_path}: no room for a frame of 5 bytes$"):
            log.append(b"more\n", 1, 0)
    assert log.end == end
    log.append(b"room\n", 1, 0)
    assert read(tmp_path, 0, log.end) == [*PAYLOADS, b"room\n"]
    log.close()


def test_sync_reaches_every_file(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda file: synced.append(os.fstat(file).st_ino))
    log = write(tmp_path, PAYLOADS, segment_bytes=1)
    assert log.sync() == log.end
    assert synced == [name.stat().st_ino for name in segments(tmp_path)]
    log.sync()
    assert len(synced) == len(PAYLOADS)
    log.close()


def test_missing_folder_is_not_damage(tmp_path) -> None:
    """On a cluster, a worker without the driver's storage; what is there is whole."""
    folder = tmp_path / "not mounted here"
    expected = f"^host {socket.gethostname()} does not see the log {folder}: put it on storage that"
    with pytest.raises(LogNotVisibleError, match=expected):
        read(folder, 0, 28)
    folder.mkdir()
    with pytest.raises(LogNotVisibleError, match=expected):
        list(frames(folder, 0, 28))


def test_failed_sync_stays_failed(tmp_path, monkeypatch) -> None:
    """After an error the system forgets the bytes, and its next answer is "done"."""
    log = write(tmp_path, PAYLOADS)

    def broken(_: int) -> None:
        raise OSError("no such luck")

    with monkeypatch.context() as once:
        once.setattr(os, "fdatasync", broken)
        with pytest.raises(OSError, match="no such luck"):
            log.sync()
    with pytest.raises(OSError, match="no such luck"):
        log.sync()
    with pytest.raises(OSError, match="no such luck"):
        log.close()


def test_last_synced_frame_is_kept(tmp_path) -> None:
    """After a power failure the new segment may be empty, and a connector needs its last frame."""
    log = write(tmp_path, PAYLOADS[:1], segment_bytes=1)
    log.sync()
    end = log.end
    log.append(b"not on disk\n", 1, 0)
    log.delete_below(end)
    assert len(segments(tmp_path)) == 2
    log.sync()
    log.delete_below(end)
    assert len(segments(tmp_path)) == 1
    assert [bytes(payload) for _, payload in newest_frames(tmp_path, log.end)] == [b"not on disk\n"]
    log.close()
