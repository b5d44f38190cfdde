"""Checks of notebook 04."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tutorial_pkg.connectors.network_lines.status import network_status
from tutorial_pkg.durable_log.segments import newest_frames
from workbook.checks.verdict import Wrong, exercise, told

LIMIT, KEPT = 100, 2
TEXT = "first\n\n Grüße\rfrom\u2028afar \n\ufeffreturn\r\nlast"
LINES, REST = ["first", "", " Grüße\rfrom\u2028afar ", "\ufeffreturn\r"], b"last"
_WITHIN_A_LETTER = "A piece ended within a letter: decode lines only when complete."
NOT_UTF_8 = b"one\xfftwo\n"
_WITHOUT = "without a newline nothing is complete, so all of it is the rest."
_EXAMPLES = [
    (b"half", b"", [], b"half", _WITHOUT),
    (b"ha", b"lf", [], b"half", _WITHOUT),
    (b"", b"one\n\n", ["one", ""], b"", "two lines are complete, one is empty; the rest is b''."),
]


@exercise("def cut(rest, received)")
def check_04_1(answer: Callable[[bytes, bytes], tuple[list[str], bytes]]) -> str:
    """Does `answer` make the same lines of the same bytes, however these are cut into pieces?"""
    try:
        found = [_lines_of(answer, size) for size in (1000, 1, 3)]
    except UnicodeDecodeError:
        raise Wrong(_WITHIN_A_LETTER) from None
    except Wrong:
        raise
    except Exception as error:
        raise Wrong(
            "It must take and return bytes as the rest, with a list of strings before it: "
            f"cut(b'a', b'b\\nc') raised {told(error)}"
        ) from None
    _compare(found)
    _examples(answer)
    _keeps_each_byte(answer)
    return "The same lines, however the bytes arrive."


def _lines_of(cut: Callable[[bytes, bytes], Any], size: int) -> tuple[list[str], bytes]:
    data, lines, rest = TEXT.encode(), [], b""
    for start in range(0, len(data), size):
        complete, rest = cut(rest, data[start : start + size])
        if isinstance(complete, Iterator | str | bytes):
            raise Wrong(f"The lines are a {type(complete).__name__}: return a list of them.")
        lines += complete
    return lines, rest


def _compare(found: list[tuple[list[str], bytes]]) -> None:
    whole, _ = found[0]
    if any("last" in lines for lines, _ in found):
        raise Wrong("'last' has no newline yet and was returned as a line: it is the new rest.")
    if whole == [line for line in LINES if line]:
        raise Wrong("An empty line is a line, too: between two newlines is ''.")
    if len(whole) > len(LINES):
        raise Wrong("It cuts at more than newlines: splitlines does; split(b'\\n') does not.")
    if whole == [line.removesuffix("\r") for line in LINES]:
        raise Wrong("A '\\r' before the newline belongs to the line: leave it there.")
    if whole != LINES:
        raise Wrong(f"Of {TEXT.encode()!r} it made the lines {whole!r}: {LINES!r} are wanted.")
    for lines, rest in found:
        if len(lines) > len(LINES):
            raise Wrong("A piece without a newline completes no line: return an empty list then.")
        if "\ufffd" in "".join(lines):
            raise Wrong(_WITHIN_A_LETTER)
        if (lines, rest) != (LINES, REST):
            raise Wrong(
                "In small pieces the lines differ: put the rest before received, keep both where "
                "there is no newline, and keep nothing from one call to the next."
            )


def _examples(cut: Callable[[bytes, bytes], Any]) -> None:
    for before, received, lines, rest, hint in _EXAMPLES:
        found = cut(before, received)
        if ([*found[0]], found[1]) != (lines, rest):
            raise Wrong(f"cut({before!r}, {received!r}) made {tuple(found)}: {hint}")


def _keeps_each_byte(cut: Callable[[bytes, bytes], Any]) -> None:
    try:
        lines, _ = cut(b"", NOT_UTF_8)
    except Exception:
        return  # a line that is no text: to say so is right, too
    if [*lines] == [NOT_UTF_8.decode(errors="ignore").rstrip("\n")]:
        raise Wrong(f"Of {NOT_UTF_8!r} it made {lines!r}: errors='ignore' drops bytes silently.")
    if not re.fullmatch(r"one\W.*two", "".join(lines)):
        raise Wrong(
            f"Of {NOT_UTF_8!r} it made {lines!r}: a line with a byte that is not UTF-8 must not "
            "disappear, nor look like text. Raise an error, or decode with errors='replace'."
        )


@exercise()
def check_04_2(answer: Path | str) -> str:
    """Is `answer` a log whose listener kept a line of 100 bytes and dropped one of 101?"""
    if not isinstance(answer, Path | str):
        kind = type(answer).__name__
        raise Wrong(f"The log's folder is wanted, this is {kind}: work / 'mine' / 'log'.")
    folder = Path(answer)
    status = network_status(folder)
    if not status.ports:
        if network_status(folder / "log").ports:
            raise Wrong(f"{folder.name} is the folder above: the log is {folder.name} / 'log'.")
        if network_status(folder.parent).ports:
            raise Wrong(f"{folder.name} is in the log's folder: the log is {folder.parent.name}.")
        raise Wrong(f"No query has listened for the log {folder.name}: start one.")
    lines = sum(port.lines for port in status.ports.values())
    dropped = sum(port.dropped["too_long"] for port in status.ports.values())
    if not lines + dropped:
        raise Wrong(
            "Nothing was received: send_lines(HOST, port, [...]), and stop the query half a "
            "second later at the earliest, when its status has been written."
        )
    if not dropped:
        raise Wrong("No line was too long: set maxLineBytes=100, and send one of 101 bytes.")
    if status.listening and _a_query_runs():
        raise Wrong("Its query still listens: stop it, query.stop().")
    kept = [
        length
        for number, port in status.ports.items()
        for length in _newest(folder / str(number), port.lines)
    ]
    longest = max(kept, default=0)
    if longest > LIMIT:
        raise Wrong(f"A line of {longest} bytes was kept: set maxLineBytes=100, not more.")
    if longest < LIMIT:
        raise Wrong(
            "No line of just 100 bytes was kept: send 'x' * 100, too. It is allowed, unless "
            "maxLineBytes is less than 100."
        )
    if min(kept) == LIMIT:
        raise Wrong(f"Only lines of {LIMIT} bytes were kept: send the short one, too.")
    if (len(kept), dropped) != (KEPT, 1):
        raise Wrong(
            f"{len(kept)} lines were kept and {dropped} dropped, two and one are wanted: send each "
            "once, with a query that has just started. When send_lines reports the dropped line, "
            "the others have arrived."
        )
    return f"{lines} lines kept, {dropped} dropped and counted, and the memory stays flat."


def _a_query_runs() -> bool:
    """Also where nobody can tell. A stopped query's listener may live some moments more."""
    spark = SparkSession.getActiveSession()
    return spark is None or bool(spark.streams.active)


def _newest(log: Path, lines: int) -> list[int]:
    """How many bytes the newest lines of a port's log have; those before are of earlier tries."""
    end = sum(file.stat().st_size for file in log.glob("*.segment"))
    data = b"".join(bytes(payload) for _, payload in newest_frames(log, end))
    return [len(line) for line in data.split(b"\n")[:-1]][-lines:] if lines else []
