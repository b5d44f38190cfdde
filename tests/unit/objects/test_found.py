"""What a stream has found: nothing is lost, nothing twice, and the offset stays small."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.unit.objects.stores import options_of, stream
from tutorial_pkg.connectors.objects import found
from tutorial_pkg.connectors.objects.found import Search, Tape
from tutorial_pkg.connectors.store import Found, Store


def put(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)


def test_a_restart_goes_on_and_a_batch_is_read_again_as_it_was(tmp_path: Path) -> None:
    put(tmp_path, "b", "1\n2\n")
    run = stream(tmp_path)
    start = run.offset
    assert run.rows() == ["1", "2"]
    put(tmp_path, "a", "late\n")
    again = stream(tmp_path, run.offset)
    assert again.rows() == ["late"]
    put(tmp_path, "c", "3\n")
    third = stream(tmp_path, again.offset)
    assert third.rows() == ["3"]
    assert third.rows() == []
    parts = stream(tmp_path, start).reader.partitions(start, run.offset)
    assert [
        row
        for part in parts
        for batch in stream(tmp_path).reader.read(part)
        for row in batch.column(0).to_pylist()
    ] == ["1", "2"]


def test_two_drivers_of_one_query_agree(tmp_path: Path) -> None:
    put(tmp_path, "a", "1\n")
    one = stream(tmp_path)
    assert one.rows() == ["1"]
    other = stream(tmp_path, one.offset)
    assert other.rows() == []
    put(tmp_path, "c", "2\n")
    assert one.rows() == ["2"]
    put(tmp_path, "b", "3\n")
    assert other.rows() == ["2", "3"]
    assert one.rows() == ["3"]
    assert one.offset == other.offset


def test_an_offset_is_small_for_200_000_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [
        Found(f"logs/2026/11/{number:06}.txt.gz", f'"{number:032x}"', 5)
        for number in range(200_000)
    ]
    listed = keys[:150_001]
    monkeypatch.setattr(found.Content, "news", lambda *_: iter(listed))
    run = stream(tmp_path)
    run.offset = run.latest()
    listed = keys
    again = stream(tmp_path, run.offset)
    end = again.latest()
    [part] = [end[name] - run.offset[name] for name in end if name]
    assert part == 49_999 * found.length(keys[0])
    assert len(json.dumps(end)) < 200
    [name] = end
    tape = Tape(options_of(tmp_path), name)
    assert [each for _, each in tape.places(run.offset[name], end[name])][-49_999:] == keys[
        150_001:
    ]


def test_a_replaced_object_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, "a", "1\n")
    run = stream(tmp_path)
    assert run.rows() == ["1"]
    put(tmp_path, "a", "1\nmore\n")
    with caplog.at_level(logging.WARNING):
        assert run.rows() + run.rows() == []
    assert [record.message.partition(";")[0] for record in caplog.records] == [
        f"{tmp_path}: `a` was replaced"
    ]


def test_a_replaced_object_is_read_again_or_refused(tmp_path: Path) -> None:
    put(tmp_path, "a", "1\n")
    again, refusing = stream(tmp_path, replaced="again"), stream(tmp_path, replaced="refuse")
    assert again.rows() == refusing.rows() == ["1"]
    put(tmp_path, "a", "1\nmore\n")
    assert again.rows() == ["1", "more"]
    with pytest.raises(Exception, match="ReplacedError: `a` was replaced after it was found"):
        refusing.rows()


@pytest.mark.parametrize(("change", "what"), [(Path.unlink, "deleted"), (None, "replaced")])
def test_an_object_that_is_gone_before_it_was_read(tmp_path: Path, change: Any, what: str) -> None:
    put(tmp_path, "a", "1\n")
    put(tmp_path, "b", "2\n")
    run, lax = stream(tmp_path), stream(tmp_path, failOnDataLoss="false")
    ends = [
        each.reader.latestOffset(each.offset, each.reader.getDefaultReadLimit())
        for each in (run, lax)
    ]
    change(tmp_path / "a") if change else put(tmp_path, "a", "other\n")
    with pytest.raises(Exception, match=f"`a` of {tmp_path} was {what} after it was found"):
        read(run, ends[0])
    assert read(lax, ends[1]) == ["2"]


def read(run: Any, end: dict[str, Any]) -> list[str]:
    parts = run.reader.partitions(run.offset, end)
    batches = [batch for part in parts for batch in run.reader.read(part)]
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def test_growing_keys_are_listed_from_the_last_one_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "b", "1\n")
    asked: list[str | None] = []
    listed = found.Content.news
    monkeypatch.setattr(
        found.Content,
        "news",
        lambda self, after=None: (asked.append(after), listed(self, after))[1],
    )
    run = stream(tmp_path, keysGrow="true")
    assert run.rows() == ["1"]
    put(tmp_path, "a", "never\n")
    put(tmp_path, "c", "2\n")
    assert run.rows() == ["2"]
    assert stream(tmp_path, run.offset, keysGrow="true").rows() == []
    assert asked == [None, "b", "c"]


def test_a_look_is_one_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a", "1\n")
    run = stream(tmp_path, notes=tmp_path / "_notes")
    run.rows()
    listed, of_objects = Store.listed, []

    def counted(self: Store, *asked: Any, **given: Any) -> list[Found]:
        of_objects.extend([self.url] if self.url == str(tmp_path) else [])
        return listed(self, *asked, **given)

    monkeypatch.setattr(Store, "listed", counted)
    for number in range(3):
        put(tmp_path, f"{number}", "2\n")
        run.latest()
    assert len(of_objects) == 3


def test_notes_that_are_gone_end_the_query(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    put(tmp_path, "a", "1\n")
    run = stream(tmp_path, notes=notes)
    assert run.rows() == ["1"]
    with pytest.raises(
        Exception, match=r"the notes `.*` of what this query has found at .* are gone"
    ):
        stream(tmp_path, run.offset, notes=tmp_path / "elsewhere").rows()


def test_limits_by_objects_and_by_bytes(tmp_path: Path) -> None:
    for number in range(13):
        put(tmp_path, f"{number:02}", f"{number}\n")
    run = stream(tmp_path, maxFilesPerTrigger=5)
    counts = []
    while True:
        end = run.reader.latestOffset(run.offset, run.reader.getDefaultReadLimit())
        if end == run.offset:
            break
        counts.append(len(read(run, end)))
        run.offset = end
    assert counts == [5, 5, 3]
    put(tmp_path, "large", "x" * 99 + "\n")
    (tmp_path / "large").write_text(("x" * 99 + "\n") * 50_000)
    by_bytes = stream(tmp_path, run.offset, maxBytesPerTrigger=1_000_000)
    counts = [len(by_bytes.rows()) for _ in range(8)]
    assert sum(counts) == 50_000
    assert max(counts) < 12_000


def test_a_search_knows_what_is_on_its_tape(tmp_path: Path) -> None:
    put(tmp_path, "a", "1\n")
    Search(options_of(tmp_path), "name").look()
    tape = Tape(options_of(tmp_path), "name")
    assert [each.key for each in tape.unread()] == ["a"]


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=f"there is no folder {tmp_path}/typo"):
        stream(tmp_path / "typo", notes=tmp_path / "notes").rows()
    assert not (tmp_path / "typo").exists()
