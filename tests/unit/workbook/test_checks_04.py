"""The checks of notebook 04."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.unit.workbook.answers import changed, look, tried
from tutorial_pkg.connectors.network_lines.status import PortStatus, status_file
from tutorial_pkg.durable_log.lock import WriterLock
from tutorial_pkg.durable_log.segments import SegmentWriter
from workbook.checks import check_04_1, check_04_2


def cut(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    *lines, rest = (rest + received).split(b"\n")
    return [line.decode() for line in lines], rest


cut_with = partial(changed, cut)


def decodes_too_early(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    *lines, rest = (rest.decode() + received.decode()).split("\n")
    return lines, rest.encode()


def uses_splitlines(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    complete, _, rest = (rest + received).rpartition(b"\n")
    return complete.decode().splitlines(), rest


def gives_a_line_always(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    complete, _, rest = (rest + received).rpartition(b"\n")
    return [line.decode() for line in complete.split(b"\n")], rest


def byte_by_byte(rest: bytes, received: bytes) -> tuple[tuple[str, ...], bytearray]:
    lines, last = [], bytearray(rest)
    for byte in received:
        last.append(byte)
        if byte == ord("\n"):
            lines.append(last[:-1].decode())
            last = bytearray()
    return tuple(lines), last


def drops_what_is_no_text(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    *lines, rest = (rest + received).split(b"\n")
    whole = [line for line in lines if line.decode(errors="ignore").encode() == line]
    return [line.decode() for line in whole], rest


def says_what_is_no_text(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    try:
        return cut(rest, received)
    except UnicodeDecodeError as error:
        if b"\xff" not in received:
            raise
        raise ValueError("not UTF-8") from error


def gives_out_the_rest_at_the_end(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    return cut(rest, received) if received else ([rest.decode()], b"")


def drops_the_rest_at_the_end(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    return cut(rest, received) if received else ([], b"")


def in_some_encoding(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


class Remembers:
    rest = b""

    def __call__(self, rest: bytes, received: bytes) -> tuple[list[str], bytes]:
        lines, self.rest = cut(self.rest, received)
        return lines, self.rest


def drops_empty_lines_at_the_end(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    whole, newline, rest = (rest + received).rpartition(b"\n")
    return ([line.decode() for line in whole.rstrip(b"\n").split(b"\n")] if newline else []), rest


REPLACE = ("decode()", 'decode(errors="replace")')
EMPTY = ("line.decode()", "'' if b'\\xff' in line else line.decode()")
test_04_1 = tried(
    check_04_1,
    (cut, "✓ The same lines"),
    (lambda rest, new: (new.decode(errors="replace").split("\n"), b""), "has no newline yet"),
    (cut_with(("(rest + received)", "received"), REPLACE), "put the rest before received"),
    (decodes_too_early, "decode lines only when complete"),
    (changed(decodes_too_early, ("decode()", "decode(errors='replace')")), "only when complete"),
    (gives_a_line_always, "A piece without a newline completes no line"),
    (uses_splitlines, "cuts at more than newlines"),
    (cut_with(("in lines]", "in lines if line]")), "An empty line is a line"),
    (cut_with((", rest\n", ", rest.decode('latin-1')\n")), "return bytes as the rest"),
    (cut_with(("line.decode()", "f'{line.decode()}\\n'")), "it made the lines"),
    (cut_with(("line.decode()", "line.decode().strip()")), "the lines ['first', '', 'Grüße"),
    (cut_with(("line.decode()", "line.decode().rstrip('\\r')")), "belongs to the line: leave"),
    (cut_with(("decode()", 'decode(errors="ignore")')), "errors='ignore' drops bytes silently"),
    (cut_with(REPLACE), "✓ The same lines"),
    (lambda rest, received: None, "raised TypeError"),
    (byte_by_byte, "✓ The same lines"),
    (cut_with(("decode()", 'decode(errors="backslashreplace")')), "✓ The same lines"),
    (says_what_is_no_text, "✓ The same lines"),
    (drops_what_is_no_text, r"Of b'one\xfftwo\n' it made []: a line with a byte that is not UTF-8"),
    (cut_with(EMPTY), r"Of b'one\xfftwo\n' it made ['']: a line with a byte that is not UTF-8"),
    (lambda rest, new: (new[:5].decode(), new[5:]), "The lines are a str: return a list of them"),
    (cut_with(("[line", "(line"), ("lines]", "lines)")), "The lines are a generator: return"),
    (
        cut_with(("line.decode()", "in_some_encoding(line)")),
        "it made ['oneÿtwo']: a line with a byte",
    ),
    (gives_out_the_rest_at_the_end, "b'') made (['half'], b''): without a newline"),
    (drops_the_rest_at_the_end, "cut(b'half', b'') made ([], b''): without a newline"),
    (lambda r, new: cut(r, new) if b"\n" in new else ([], new), "keep both where there is no"),
    (drops_empty_lines_at_the_end, r"cut(b'', b'one\n\n') made (['one'], b''): two lines are"),
    (
        cut_with((", rest\n", ", rest or None\n"), ("(rest +", "((rest or b'') +")),
        "; the rest is b''.",
    ),
    (cut_with(("decode()", 'decode("utf-8-sig")')), r"'\ufeffreturn\r'] are wanted"),
    (Remembers(), "and keep nothing from one call to the next"),
    (lambda rest, received: cut(received, rest), "put the rest before received"),
)


def log_with(folder: Path, lines: int, too_long: int, *letters: int) -> Path:
    """What a listener leaves behind that has stopped; in its log, lines of so many letters."""
    folder.mkdir(parents=True, exist_ok=True)
    port = PortStatus(listening=False, lines=lines, dropped={"too_long": too_long})
    status_file(folder).write({11000: port}, [])
    log = SegmentWriter(folder / "11000")
    for count in letters:
        log.append(b"x" * count + b"\n", 1, received_at=0)
    log.close()
    return folder


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ((2, 1, 5, 100), "✓ 2 lines kept, 1 dropped"),
        ((0, 0), "Nothing was received"),
        ((3, 0, 5, 50, 100), "set maxLineBytes=100"),
        ((0, 3), "No line of just 100 bytes was kept"),
        ((2, 1, 5, 300), "A line of 300 bytes was kept: set maxLineBytes=100, not more"),
        ((3, 1, 5, 100, 101), "A line of 101 bytes was kept"),
        ((1, 2, 99), "It is allowed, unless maxLineBytes is less than 100"),
        ((1, 1, 100), "Only lines of 100 bytes were kept: send the short one, too"),
        ((2, 1, 100, 100), "Only lines of 100 bytes were kept: send the short one, too"),
        ((2, 1, 5, 101, 5, 100), "✓ 2 lines kept"),  # two of an earlier listener
        ((4, 1, 5, 100, 5, 100), "4 lines were kept and 1 dropped, two and one are wanted"),
        ((2, 2, 5, 100), "2 lines were kept and 2 dropped, two and one are wanted"),
    ],
)
def test_04_2(tmp_path: Path, log: tuple[int, ...], expected: str) -> None:
    look(check_04_2(log_with(tmp_path, *log)), expected)


def test_04_2_with_a_query_that_runs_on(tmp_path: Path) -> None:
    """Without a session nobody can tell, so its lock counts."""
    log_with(tmp_path, 2, 1, 5, 100)
    status_file(tmp_path).write({11000: PortStatus(lines=2, dropped={"too_long": 1})}, [])
    lock = WriterLock(tmp_path)
    try:
        verdict = check_04_2(tmp_path)
    finally:
        lock.release()
    look(verdict, "still listens: stop it")


def test_04_2_is_a_log_s_folder(tmp_path: Path) -> None:
    look(check_04_2(11000), "The log's folder is wanted, this is int")
    look(check_04_2(("query", 11000)), "The log's folder is wanted, this is tuple")
    look(check_04_2(tmp_path / "nothing"), "No query has listened for the log nothing")
    log_with(tmp_path / "mine" / "log", 2, 1, 5, 100)
    look(check_04_2(tmp_path / "mine"), "the log is mine / 'log'")
    look(check_04_2(tmp_path / "mine" / "log" / "11000"), "11000 is in the log's folder")
    look(check_04_2(str(tmp_path / "mine" / "log")), "✓ 2 lines kept")
