"""The checks of notebook 04: a right answer passes, typical wrong ones get the hint they need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tutorial_pkg.connectors.network_lines.status import PortStatus, status_file
from tutorial_pkg.durable_log.lock import WriterLock
from tutorial_pkg.workbook.checks import check_04_1, check_04_2


def right_cut(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    *lines, rest = (rest + received).split(b"\n")
    return [line.decode() for line in lines], rest


def emits_half_lines(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    return [line.decode(errors="replace") for line in received.split(b"\n")], b""


def forgets_the_rest(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    *lines, rest = received.split(b"\n")
    return [line.decode(errors="replace") for line in lines], rest


def decodes_too_early(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    *lines, rest = (rest.decode() + received.decode()).split("\n")
    return lines, rest.encode()


def uses_splitlines(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    complete, _, rest = (rest + received).rpartition(b"\n")
    return complete.decode().splitlines(), rest


def drops_empty_lines(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    lines, rest = right_cut(rest, received)
    return [line for line in lines if line], rest


def returns_text_as_rest(rest: bytes, received: bytes) -> tuple[list[str], str]:
    lines, rest = right_cut(rest, received)
    return lines, rest.decode(errors="replace")


def keeps_newlines(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    lines, rest = right_cut(rest, received)
    return [f"{line}\n" for line in lines], rest


def strips_lines(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    lines, rest = right_cut(rest, received)
    return [line.strip() for line in lines], rest


def test_04_1_right() -> None:
    assert check_04_1(right_cut).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ("text", "A function is wanted"),
        (emits_half_lines, "'last' has no newline yet"),
        (forgets_the_rest, "put the rest before received"),
        (decodes_too_early, "decode lines only when complete"),
        (uses_splitlines, "cuts at more than newlines"),
        (drops_empty_lines, "An empty line is a line"),
        (returns_text_as_rest, "must take and return bytes as the rest"),
        (keeps_newlines, "it made the lines"),
        (strips_lines, "it made the lines ['first', '', 'Grüße"),
        (lambda rest, received: None, "raised TypeError"),
    ],
)
def test_04_1_wrong(answer: Callable, hint: str) -> None:
    verdict = check_04_1(answer)
    assert not verdict.passed
    assert hint in verdict.message


def log_with(folder: Path, lines: int, too_long: int, *letters: int) -> Path:
    """What a listener leaves behind that has stopped; in its log, lines of so many letters."""
    port = PortStatus(listening=False, lines=lines, dropped={"too_long": too_long})
    status_file(folder).write({11000: port}, [])
    (folder / "11000").mkdir()
    content = b"".join(b"x" * count + b"\n" for count in letters)
    (folder / "11000" / "0.segment").write_bytes(b"\0\0\0\x10" + content)
    return folder


def test_04_2_right(tmp_path: Path) -> None:
    verdict = check_04_2(log_with(tmp_path, 2, 1, 5, 100))
    assert verdict.passed
    assert "2 lines kept, 1 dropped" in verdict.message


@pytest.mark.parametrize(
    ("lines", "too_long", "letters", "hint"),
    [
        (0, 0, [], "Nothing was received"),
        (3, 0, [5, 50, 100], "set maxLineBytes=100"),
        (0, 3, [], "No line of just 100 bytes was kept"),
        (2, 1, [5, 300], "A line of 300 bytes was kept: set maxLineBytes=100, not more"),
        (3, 1, [5, 100, 101], "A line of 101 bytes was kept"),
        (1, 2, [99], "100 are allowed"),
    ],
)
def test_04_2_wrong(
    tmp_path: Path, lines: int, too_long: int, letters: list[int], hint: str
) -> None:
    verdict = check_04_2(log_with(tmp_path, lines, too_long, *letters))
    assert not verdict.passed
    assert hint in verdict.message


def test_04_2_with_a_query_that_runs_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a session nobody can tell, so its lock counts; other tests may have started one."""
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    log_with(tmp_path, 2, 1, 5, 100)
    status_file(tmp_path).write({11000: PortStatus(lines=2, dropped={"too_long": 1})}, [])
    lock = WriterLock(tmp_path)
    try:
        verdict = check_04_2(tmp_path)
    finally:
        lock.release()
    assert not verdict.passed
    assert "still listens: stop it" in verdict.message


@pytest.mark.parametrize("answer", [11000, ("query", 11000)])
def test_04_2_is_a_folder(answer: object) -> None:
    verdict = check_04_2(answer)
    assert not verdict.passed
    assert f"The log's folder is wanted, this is {type(answer).__name__}" in verdict.message


def test_04_2_without_a_query(tmp_path: Path) -> None:
    verdict = check_04_2(tmp_path / "nothing")
    assert not verdict.passed
    assert "No query has listened for the log nothing" in verdict.message


def test_04_2_with_the_folder_above_the_log(tmp_path: Path) -> None:
    (tmp_path / "mine" / "log").mkdir(parents=True)
    log_with(tmp_path / "mine" / "log", 2, 1, 5, 100)
    verdict = check_04_2(tmp_path / "mine")
    assert not verdict.passed
    assert "the log is mine / 'log'" in verdict.message
