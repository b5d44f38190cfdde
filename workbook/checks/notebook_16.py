"""Checks of notebook 16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbook.checks.verdict import Case, Wrong, compare, exercise

# ---- Exercise 1: a block of whole lines ----------------------------------------------------------

_NEWLINE = "Only a newline ends a line: splitlines cuts at more."
_EMPTY = "An empty line is a line, too: send the bytes as they are."
_TORN = "The rest after the last newline may be torn: leave it for the next block."
_NOTHING = "No line is whole yet: an empty block, and the same position."
_LONG = b"x" * 100_000 + b"\n"
_BLOCKS = [
    Case((b"a\nb\n", 0), (b"a\nb\n", 4), "Both lines are whole, so all four bytes are sent."),
    Case((b"a\nb\n", 2), (b"b\n", 4), "The first two bytes are on the receiver's disk already."),
    Case((b"a\nbcd", 0), (b"a\n", 2), _TORN),
    Case((b"a\nbcd", 2), (b"", 2), _NOTHING),
    Case((b"a\n", 2), (b"", 2), "All of it is there: an empty block, and the same position."),
    Case(
        ("ä\nb\n".encode(), 0), ("ä\nb\n".encode(), 5), "A position counts bytes, not characters."
    ),
    Case((b"a\n\xc3", 0), (b"a\n", 2), "A file may end within a letter: work with bytes."),
    Case(
        (b"a\nbcd", 4), (b"", 4), "Behind `position` is no newline: one before it does not count."
    ),
    Case((b"abc", 0), (b"", 0), _NOTHING),
    Case((b"a\rb\nc", 0), (b"a\rb\n", 4), _NEWLINE),
    Case((b"a\nb\rc", 0), (b"a\n", 2), _NEWLINE),
    Case((b"a\r\n\nb\n", 3), (b"\nb\n", 6), _EMPTY),
    Case((b"a\n\n", 0), (b"a\n\n", 3), _EMPTY),
    Case((b"\nb", 0), (b"\n", 1), "A file may begin with an empty line, whose newline is at 0."),
    Case((b"a\r\n", 0), (b"a\r\n", 3), "Send the bytes as they are: a position counts them all."),
    Case((b"\xe4\nb", 0), (b"\xe4\n", 2), "A file need not be UTF-8: send its bytes as they are."),
    Case(
        (b" \ta\nb \n", 0),
        (b" \ta\nb \n", 7),
        "Blanks belong to a line: send its bytes as they are.",
    ),
    Case(
        (_LONG, 0), (_LONG, len(_LONG)), "A line may be long: it is sent whole, or nothing follows."
    ),
]


@exercise("def next_block(data, position)")
def check_16_1(answer: Callable[[bytes, int], Any]) -> str:
    """Does `answer` give the whole lines from a position on, and the position after them?"""
    compare(answer, _BLOCKS, key=_pair)
    return "Whole lines, and the position after them: a crash between two blocks costs nothing."


def _pair(found: Any) -> Any:
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise Wrong("It must return two things: the bytes to send, and the position after them.")
    return bytes(found[0]) if isinstance(found[0], bytearray) else found[0], found[1]


# ---- Exercise 2: where to go on ------------------------------------------------------------------

_NEWEST = "The newest frame is the last one, even if its position is lower: it is another file's."
_KNOWN = [
    Case(([],), {}, "An empty log has no names, and no `None` either: return an empty dict."),
    Case(([("a", 5), ("b", 7)],), {"a": 5, "b": 7}, "Each name has a position of its own."),
    Case(([("a", 5), ("b", 7), ("a", 9)],), {"a": 9, "b": 7}, "The last frame of a name counts."),
    Case(
        ([("a", 5), (None, None), (None, None), ("b", 7)],),
        {"a": 5, "b": 7},
        "A frame of plain lines has no name: it says nothing about positions.",
    ),
    Case(([("a", 0)],), {"a": 0}, "0 is a position, too: leave out only frames without a name."),
    Case(([("a", 9), ("a", 0)],), {"a": 0}, _NEWEST),
    Case(([("b", 5), ("a", 3), ("a", 7)],), {"a": 7, "b": 5}, "Each name has a last frame."),
    Case(([("a", 9), ("a", 4), (None, None)],), {"a": 4}, _NEWEST),
]


@exercise("def positions(frames)")
def check_16_2(answer: Callable[[list[tuple[str | None, int | None]]], Any]) -> str:
    """Does `answer` find in a log's frames where each sender has to go on?"""
    compare(answer, _KNOWN)
    return "The log alone says where each sender goes on, because lines and position are one frame."
