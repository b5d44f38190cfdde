"""The checks of notebook 03."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from tests.unit.workbook.answers import changed, tried
from workbook.checks import check_03_1, check_03_2
from workbook.checks.trial import run_to_end
from workbook.checks.verdict import Wrong

test_03_1 = tried(
    check_03_1,
    (lambda data: data.rfind(b"\n") + 1, "✓ Never half a line"),
    (len, "Half a line goes out"),
    (
        lambda data: max(0, len(data) - 65536) + data[-65536:].rfind(b"\n") + 1,
        "x … xxxxxxxxx') must be 4, yours is 2934468. The newline may be far from the end",
    ),
    (lambda data: data.rfind(b"\n"), "the byte *after* it"),
    (lambda data: data.rindex(b"\n") + 1, "answer(b'on') raised ValueError"),
    (lambda data: data[: data.rfind(b"\n") + 1], "It must return a whole number"),
    (lambda data: max(data.rfind(b"\n"), 1) + 1, "Without a newline nothing"),
    (lambda data: data.count(b"\n"), "after the *last* newline"),
    (lambda data: data.rfind(b"\n") + 1 if data.rfind(b"\n") > 0 else 0, "0 is a place, too"),
    (lambda data: data.rfind("\n") + 1, "raised TypeError"),
    (lambda data: float(data.rfind(b"\n") + 1), "It must return a whole number"),
    (lambda data: data.find(b"\n") + 1, "after the *last* newline"),
    (lambda data: data.decode().rfind("\n") + 1, "count bytes, do not decode"),
    (
        lambda data: sum(len(s) for s in data.splitlines(True) if s.endswith(b"\n")),
        "splitlines() cuts at b'\\r', too",
    ),
    (lambda data: len(b"".join(data.rpartition(b"\n")[:2])), "✓ Never half a line"),
    (lambda data: max(data.rfind(b"\n"), data.rfind(b"\r")) + 1, "b'\\r' is a byte like any other"),
    (lambda data: data.replace(b"\r\n", b"\n").rfind(b"\n") + 1, "a byte like any other"),
    (lambda data: len(data.decode().rpartition("\n")[0].encode()) + (b"\n" in data),
     "The file may end within a letter: count bytes, do not decode"),
    (lambda data: len(data.decode(errors="ignore").rpartition("\n")[0].encode()) + (b"\n" in data),
     "count bytes, do not decode"),
    (lambda data: data.find(b"\n", data.find(b"\n") + 1) + 1 or data.find(b"\n") + 1,
     "It must be after the *last* newline"),
    (lambda data: len(data.rstrip(b"\n")) + 1 if data[-2:] == b"\n\n" else data.rfind(b"\n") + 1,
     "Empty lines at the end"),
    (lambda data: data.rfind(b"\n") + 1 if data[data.rfind(b"\n") + 1:].strip() else len(data),
     "Blanks may be the first half"),
    (lambda data: np.int64(data.rfind(b"\n") + 1), "a whole number, an int"),
)  # fmt: skip


class Stretch(InputPartition):
    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop


class WholeLines(DataSourceStreamReader):
    def __init__(self, path: str) -> None:
        self.path = path

    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        with open(self.path, "rb") as file:
            file.seek(start["next"])
            return {"next": start["next"] + file.read().rfind(b"\n") + 1}

    def partitions(self, start: dict, end: dict) -> list[Stretch]:
        return [Stretch(start["next"], end["next"])]

    def read(self, partition: Stretch) -> Iterator[tuple[str]]:
        with open(self.path, "rb") as file:
            file.seek(partition.start)
            text = file.read(partition.stop - partition.start).decode()
        return iter([(line,) for line in text.split("\n")[:-1]])


reader = partial(changed, WholeLines)


class PlaceInSelf(WholeLines):
    def __init__(self, path: str) -> None:
        self.path, self.next = path, 0

    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        with open(self.path, "rb") as file:
            file.seek(self.next)
            self.next += file.readline().rfind(b"\n") + 1
        return {"next": self.next}


class ReadsOnce(WholeLines):
    def __init__(self, path: str) -> None:
        self.path, self.first = path, None

    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        self.first = start["next"] if self.first is None else self.first
        return super().latestOffset(start, limit)

    def partitions(self, start: dict, end: dict) -> list[Stretch]:
        return [] if self.first is None else super().partitions(start, end)


class CountsLetters(WholeLines):
    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        return {"next": Path(self.path).read_text().rfind("\n") + 1}


class Truncates(WholeLines):
    def commit(self, end: dict) -> None:
        file = Path(self.path)
        file.write_bytes(file.read_bytes()[end["next"] :])


class EachLineOnce(WholeLines):
    def read(self, partition: Stretch) -> Iterator[tuple[str]]:
        return iter(dict.fromkeys(super().read(partition)))


class ReadsLetters(WholeLines):
    def read(self, partition: Stretch) -> Iterator[tuple[str]]:
        with open(self.path) as file:
            file.seek(partition.start)
            text = file.read(partition.stop - partition.start)
        return iter([(line,) for line in text.splitlines()])


class StopsWhereALineIsEmpty(WholeLines):
    def read(self, partition: Stretch) -> Iterator[tuple[str]]:
        return takewhile(any, super().read(partition))


class BeyondTheEnd(WholeLines):
    """It reads until it has all that was promised, as the notebook's `Blocks` does."""

    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        return {"next": Path(self.path).stat().st_size + 1}

    def read(self, partition: Stretch) -> Iterator[tuple[str]]:
        with open(self.path, "rb") as file:
            file.seek(partition.start)
            while file.tell() < partition.stop:
                yield (file.readline().decode(),)


class LinesAreCounted(WholeLines):
    """Another kind of offset."""

    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        return {"next": Path(self.path).read_bytes().count(b"\n")}

    def read(self, partition: Stretch) -> Iterator[tuple[str]]:
        lines = Path(self.path).read_bytes().split(b"\n")
        return iter([(line.decode(),) for line in lines[partition.start : partition.stop]])


class HalfInSelf(WholeLines):
    """As in notebook 04; but a task's reader has never seen the first half."""

    rest = b""

    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        return {"next": Path(self.path).stat().st_size}

    def read(self, partition: Stretch) -> Iterator[tuple[str]]:
        data = Path(self.path).read_bytes()[partition.start : partition.stop]
        *lines, self.rest = (self.rest + data).split(b"\n")
        return iter([(line.decode(),) for line in lines])


class AtTheEnd(WholeLines):
    def initialOffset(self) -> dict[str, int]:
        return {"next": Path(self.path).read_bytes().rfind(b"\n") + 1}


class RememberedByPartitions(WholeLines):
    """Right as long as each batch is asked for once."""

    def __init__(self, path: str) -> None:
        self.path, self.next = path, None

    def partitions(self, start: dict, end: dict) -> list[Stretch]:
        first = start["next"] if self.next is None else self.next
        self.next = end["next"]
        return [Stretch(first, end["next"])]


READ = 'file.read().rfind(b"\\n") + 1'
NEXT = f'return {{"next": start["next"] + {READ}}}'
IN_SELF = (
    ("self.path = path", "self.path, self.next = path, 0"),
    ('file.seek(start["next"])', "file.seek(self.next)"),
    (NEXT, f"self.next += {READ}; return {{'next': self.next}}"),
)
test_03_2 = tried(
    check_03_2,
    (WholeLines, "✓ Every whole line once"),
    (reader(('rfind(b"\\n") + 1', "__len__()"), ("[:-1]", "")), "Half a line, 'tw', went out"),
    (reader(('start["next"] + file', "file")), "went back, from {'next': 6} to {'next': 0}"),
    (PlaceInSelf, "and add that, and keep none in `self`"),
    (reader(("rfind", "find")), "✓ Every whole line once"),  # a line in each batch
    (reader(('b"\\n") + 1}', 'b"\\n")}')), "it read [], up to {'next': 5}"),
    (reader(('b"\\n") + 1}', 'b"\\n")}'), ("[:-1]", "")), "line came. An offset comes *after*"),
    (reader(("self, start: dict, limit: Any", "self")), "It raised TypeError"),
    (reader(("rfind", "rindex")), "There may be no newline yet: rfind returns -1 then"),
    (reader(('{"next": 0}', '{"next": {0}}')), "not JSON serializable"),
    (AtTheEnd, "`initialOffset` returned {'next': 6}, so the lines that are there"),
    (reader(('Stretch(start["next"]', "Stretch(0")), "'ünö' came twice. Let `partitions` begin at"),
    (reader((NEXT, 'return {"next": 6}')), "`latestOffset` did not see that the file has grown"),
    (reader(("file.read().rfind", "file.read(100).rfind")), "Lines of 3,000,000, 4 and"),
    (HalfInSelf, "{'next': 8} is within the line 'two', after 'tw': end an offset after a newline"),
    (reader(("[:-1]", "")), "An empty row came after 'ünö': split leaves it"),
    (reader(('split("\\n")[:-1]', "splitlines()")), "splitlines() cuts at more than newlines"),
    (reader(('split("\\n")[:-1]', 'replace("\\r", "\\n").split("\\n")[:-1]')),
     "4 and 15 bytes came as rows of [3000000, 4, 5, 9] bytes: read on until there is a newline"),
    (reader(("(line,)", "(line.strip(),)")), "an empty line is a line, and spaces belong to it"),
    (reader(("[:-1]]", "[:-1] if line]")), "an empty line is a line"),
    (ReadsOnce, "must use nothing but these two offsets"),
    (RememberedByPartitions, "self.next has changed while it read"),
    (reader(*IN_SELF), "self.next has changed while it read"),
    (
        reader(("read(partition.stop - partition.start)", "read()")),
        "'two', 'four'] for the offsets of",
    ),
    (reader((NEXT, "file.read()")), "`latestOffset` returned None: return a dict"),
    (reader((NEXT, f"return {READ}")), "`latestOffset` returned 6: return a dict such as"),
    (CountsLetters, "It cut a letter in two: an offset counts bytes"),
    (LinesAreCounted, "✓ Every whole line once"),
    (reader((NEXT, f"return dict(start, next=start['next'] + {READ})")), "✓ Every whole line once"),
    (reader(('rfind(b"\\n") + 1', 'replace(b"\\r", b"\\n").rfind(b"\\n") + 1')),
     "came as rows of [3000000, 4, 9] bytes: read on until there is a newline, b'\\n' only"),
    (Truncates, "From {'next': 6} to"),
    (EachLineOnce, "a line that was there before is a line, too"),
    (ReadsLetters, "`read` went on beyond {'next': 6}"),
    (reader(('Stretch(start["next"], end["next"])', 'Stretch(start["next"], 10**9)'),
            ("[:-1]", "")),
     "`read` went on beyond {'next': 6}"),
    (StopsWhereALineIsEmpty, "an empty line is a line"),
    (BeyondTheEnd, "`read` did not end: from {'next': 0} to {'next': 9} it gave more than"),
    (reader(("[(line,)", "[line")), "a row is a tuple: (line,)"),
    (reader((NEXT, f"now = start['next'] + {READ}; return {{'next': now}} if now > start['next'] "
                   "else None")), "`latestOffset` returned None: return a dict"),
)  # fmt: skip


def test_a_query_that_goes_on_is_stopped(tmp_path: Path) -> None:
    """As of a reader that keeps its place in the class, where another process does not see it."""
    writer = mock.MagicMock()
    query = writer.option().trigger().start()
    query.awaitTermination.return_value = False
    query.exception.return_value = None
    with pytest.raises(Wrong, match="it was not done after a minute"):
        run_to_end(writer, tmp_path)
    query.stop.assert_called_once()
