"""The tape of a stream: no object is lost or read twice, and the offset stays small."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.unit.objects.folders import batch_reader, options_of, store_at, stream
from tutorial_pkg.connectors.objects import tape
from tutorial_pkg.connectors.objects.tape import Search, Tape
from tutorial_pkg.connectors.store import ObjectInfo


def test_two_drivers_of_a_query_share_a_tape(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    one = stream(tmp_path)
    start = one.offset
    assert one.rows() == ["1"]
    assert stream(tmp_path).read(start, one.offset) == ["1"]  # the batch is repeated
    other = stream(tmp_path, one.offset)
    assert other.rows() == []
    (tmp_path / "c").write_text("2\n")
    assert one.rows() == ["2"]
    (tmp_path / "b").write_text("3\n")
    assert other.rows() == ["2", "3"]
    assert one.rows() == ["3"]
    assert one.offset == other.offset


def test_two_drivers_record_an_object_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "RECORD_OBJECTS", 2)
    options = options_of(tmp_path, lookSeconds=0)
    one, other = (Search(options, "name") for _ in range(2))
    for keys, driver in (("abcde", one), ("f", other)):
        for key in keys:
            (tmp_path / key).write_text(key)
        end = driver.look()
    assert [info.key for _, info in Tape(options, "name").places(0, end)] == [*"abcdef"]


def test_offset_is_small_for_30_000_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (f"logs/2026/11/{number:06}.txt.gz" for number in range(30_000))
    objects = [ObjectInfo(name, f'"{number:032x}"', 5) for number, name in enumerate(names)]
    listed = objects[:25_001]
    monkeypatch.setattr(tape.Content, "news", lambda *_: iter(listed))
    run = stream(tmp_path)
    run.offset = run.latest()
    listed = objects
    end = stream(tmp_path, run.offset).latest()
    [name] = end.keys() - {""}
    start, stop = run.offset[name], end[name]
    assert stop - start == 4_999 * tape.length(objects[0])
    assert len(json.dumps(end)) < 200
    places = Tape(options_of(tmp_path), name).places(start, stop)
    assert [info for _, info in places][-4_999:] == objects[25_001:]


def test_old_offset_and_tape_stay_readable(tmp_path: Path) -> None:
    """As version 0.2 has written them."""
    (tmp_path / "a").write_text("1\n")
    (tmp_path / "b").write_text("2\n")
    infos = [list(info) for info in store_at(tmp_path).listing()]
    line = json.dumps({"number": 0, "end": 202, "objects": infos}, separators=(",", ":"))
    (tmp_path / "_found/0123abcd/each").mkdir(parents=True)
    (tmp_path / f"_found/0123abcd/each/{0:020}").write_text(f"{line}\n")
    (tmp_path / "c").write_text("3\n")
    assert stream(tmp_path, {"0123abcd": 101}).rows() == ["2", "3"]
    assert stream(tmp_path, {"": '{"0123abcd": 0}', "0123abcd": 303}).rows() == []


def test_replaced_object_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a").write_text("1\n")
    run = stream(tmp_path)
    again, refusing = stream(tmp_path, replaced="again"), stream(tmp_path, replaced="refuse")
    assert run.rows() == again.rows() == refusing.rows() == ["1"]
    (tmp_path / "a").write_text("1\nmore\n")
    with caplog.at_level(logging.WARNING):
        assert run.rows() + run.rows() == []
    assert len(caplog.records) == 1
    assert again.rows() == ["1", "more"]
    with pytest.raises(Exception, match="ReplacedError: `a`"):
        refusing.rows()


@pytest.mark.parametrize("change", [Path.unlink, lambda file: file.write_text("other\n")])
def test_object_lost_before_it_was_read(tmp_path: Path, change: Any) -> None:
    (tmp_path / "a").write_text("1\n")
    (tmp_path / "b").write_text("2\n")
    run, lax = stream(tmp_path), stream(tmp_path, failOnDataLoss="false")
    growing = stream(tmp_path, replaced="again", keysGrow="true")
    batch = batch_reader(tmp_path, replaced="again", parallelism=1)
    ends, [part] = [each.latest() for each in (run, growing, lax)], batch.partitions()
    change(tmp_path / "a")
    for work in (
        lambda: run.read(run.offset, ends[0]),
        lambda: growing.read(growing.offset, ends[1]),
        lambda: list(batch.read(part)),
    ):
        with pytest.raises(Exception, match=r"LookupError: `a` .*failOnDataLoss"):
            work()
    assert lax.read(lax.offset, ends[2]) == ["2"]


def test_growing_keys_are_listed_from_the_last(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("1\n")
    run = stream(tmp_path, keysGrow="true")
    assert run.rows() == ["1"]
    (tmp_path / "a").write_text("never\n")
    (tmp_path / "c").write_text("2\n")
    assert run.rows() == ["2"]


def test_missing_or_short_tape_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    run = stream(tmp_path, notes=tmp_path / "_notes")
    start, end = run.offset, run.latest()
    assert run.rows() == ["1"]
    elsewhere = stream(tmp_path, run.offset, notes=tmp_path / "_elsewhere")
    with pytest.raises(Exception, match="option `notes`"):
        elsewhere.rows()
    [note] = (tmp_path / "_notes").rglob("each/*")
    note.write_bytes(b"")
    with pytest.raises(Exception, match=f"{note.name} is empty or damaged"):
        run.read(start, end)
    note.unlink()
    with pytest.raises(Exception, match="option `notes`"):
        run.read(start, end)


def test_limits_by_objects_and_by_bytes(tmp_path: Path) -> None:
    for number in range(13):
        (tmp_path / f"{number:02}").write_text(f"{number}\n")
    run = stream(tmp_path, maxFilesPerTrigger=5)
    for count in (5, 5, 3):
        end = run.reader.latestOffset(run.offset, run.reader.getDefaultReadLimit())
        assert len(run.read(run.offset, end)) == count
        run.offset = end
    (tmp_path / "large").write_text(("x" * 99 + "\n") * 50_000)
    by_bytes = stream(tmp_path, run.offset, maxBytesPerTrigger=1_000_000)
    counts = [len(by_bytes.rows()) for _ in range(8)]
    assert sum(counts) == 50_000
    assert max(counts) < 12_000


def test_missing_folder_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=f"no folder {tmp_path}/typo"):
        stream(tmp_path / "typo", notes=tmp_path / "_notes").rows()
    assert not (tmp_path / "typo").exists()
