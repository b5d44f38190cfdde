"""This package's formats, described for the conformance kit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tutorial_pkg import (
    CpuLogDataSource,
    FileLinesDataSource,
)
from tutorial_pkg.testing import LIMIT, StreamSink, StreamSource


def file_lines(folder: Path) -> StreamSource:
    file = folder / "in.txt"
    file.touch()

    def feed(numbers: Sequence[int]) -> None:
        with file.open("a") as lines:
            lines.write("".join(f"{number}\n" for number in numbers))

    return StreamSource(
        FileLinesDataSource,
        {"path": file},
        feed=feed,
        limit={"maxRowsPerTrigger": LIMIT},
        not_claimed={"other_parallelism": "no option of its own: files are split by size"},
    )


def cpu_log_sink(folder: Path) -> StreamSink:
    def read() -> list[str]:
        texts = [file.read_bytes() for file in folder.glob("data.*.csv")]
        lines = [line for text in texts for line in text.decode().splitlines()]
        return [restored(line.split(",", 2)[2]) for line in lines]

    return StreamSink(
        CpuLogDataSource,
        read,
        {"path": folder},
        not_claimed={"whole_batches": "a batch is appended to one file after the other"},
    )


def restored(item: str) -> str:
    """The item of a line, with what it escapes."""
    parts = item.split("\\\\")
    return "\\".join(part.replace("\\n", "\n").replace("\\r", "\r") for part in parts)
