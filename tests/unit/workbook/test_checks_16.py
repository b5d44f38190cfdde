"""The checks of notebook 16."""

from __future__ import annotations

from tests.unit.workbook.answers import tried
from workbook.checks import check_16_1, check_16_2


def next_block(data: bytes, position: int) -> tuple[bytes, int]:
    block = data[position : data.rfind(b"\n") + 1]
    return block, position + len(block)


def by_text(data: bytes, position: int) -> tuple[bytes, int]:
    block, _ = next_block(data, position)
    return block, position + len(block.decode())


def by_index(data: bytes, position: int) -> tuple[bytes, int]:
    block = data[position : data.rindex(b"\n") + 1]
    return block, position + len(block)


def by_lines(data: bytes, position: int) -> tuple[bytes, int]:
    lines = data[position:].splitlines(keepends=True)
    block = b"".join(line for line in lines if line.endswith(b"\n"))
    return block, position + len(block)


def by_all_lines_but_a_torn_one(data: bytes, position: int) -> tuple[bytes, int]:
    lines = data[position:].splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    return b"".join(lines), position + len(b"".join(lines))


def stripped(data: bytes, position: int) -> tuple[bytes, int]:
    text = next_block(data, position)[0].rstrip(b"\n")
    block = text + b"\n" if text else b""
    return block, position + len(block)


def what_is_utf_8(data: bytes, position: int) -> tuple[bytes, int]:
    block = next_block(data, position)[0].decode(errors="ignore").encode()
    return block, position + len(block)


def without_empty_lines(data: bytes, position: int) -> tuple[bytes, int]:
    lines = data[position:].split(b"\n")[:-1]
    block = b"".join(line + b"\n" for line in lines if line)
    return block, position + len(block)


def with_newlines_of_unix(data: bytes, position: int) -> tuple[bytes, int]:
    block = next_block(data, position)[0].replace(b"\r\n", b"\n")
    return block, position + len(block)


def by_partition(data: bytes, position: int) -> tuple[bytes, int]:
    before, newline, _ = data[position:].rpartition(b"\n")
    return before + newline, position + len(before + newline)


def line_by_line(data: bytes, position: int) -> tuple[bytearray, int]:
    block = bytearray()
    while (end := data.find(b"\n", position) + 1) > 0:
        block += data[position:end]
        position = end
    return block, position


def not_from_byte_0(data: bytes, position: int) -> tuple[bytes, int]:
    return next_block(data, position) if data.rfind(b"\n") > 0 else (b"", position)


def positions(frames: list) -> dict:
    return {name: position for name, position in frames if name}


def highest(frames: list) -> dict:
    found: dict = {}
    for name, position in frames:
        if name:
            found[name] = max(position, found.get(name, 0))
    return found


def higher_or_0(frames: list) -> dict:
    found: dict = {}
    for name, position in frames:
        if name and (position == 0 or position > found.get(name, -1)):
            found[name] = position
    return found


def without_plain_frames(frames: list) -> dict:
    for frame in frames:
        if frame[0] is None:
            frames.remove(frame)
    return dict(frames)


def used_up(frames: list) -> dict:
    return positions([frames.pop(0) for _ in range(len(frames))])


def not_none(frames: list) -> dict:
    found = dict(frames)
    del found[None]
    return found


def backwards(frames: list) -> dict:
    found: dict = {}
    for name, position in reversed(frames):
        if name is not None:
            found.setdefault(name, position)
    return found


def without_blanks(data: bytes, position: int) -> tuple[bytes, int]:
    block, end = next_block(data, position)
    return block.strip(b" \t"), end


def of_a_piece(data: bytes, position: int) -> tuple[bytes, int]:
    return next_block(data[: position + 65_536], position)


test_16_1 = tried(
    check_16_1,
    (next_block, "✓ Whole lines, and the position"),
    (lambda data, position: list(next_block(data, position)), "✓ Whole lines"),
    (lambda data, position: data[position:], "It must return two things"),
    (lambda data, at: (data[at : data.rfind(b"\n") + 1], data.rfind(b"\n") + 1), "does not count"),
    (lambda data, position: (data[position:], len(data)), "may be torn: leave it"),
    (lambda data, position: next_block(data, 0), "are on the receiver's disk already"),
    (by_text, "A position counts bytes, not characters"),
    (lambda data, position: next_block(data.decode().encode(), position), "end within a letter"),
    (by_lines, "splitlines cuts at more"),
    (by_all_lines_but_a_torn_one, "(b'a\\nb\\rc', 0) must be"),
    (stripped, "(b'a\\n\\n', 0) must be"),
    (what_is_utf_8, "A file need not be UTF-8"),
    (lambda data, position: (data[position : data.rfind(b"\n")], 4), "Both lines are whole"),
    (lambda data, position: (next_block(data, position)[0], len(data)), "may be torn: leave it"),
    (by_index, "No line is whole yet"),
    (lambda data, at: next_block(data, at) if b"\n" in data[at:] else (b"", 0), "No line is"),
    (without_empty_lines, "An empty line is a line, too"),
    (with_newlines_of_unix, "Send the bytes as they are"),
    (not_from_byte_0, "A file may begin with an empty line"),
    (without_blanks, "Blanks belong to a line"),
    (of_a_piece, "A line may be long"),
    (by_partition, "✓ Whole lines"),
    (line_by_line, "✓ Whole lines"),
)


def until_one_comes_again(frames: list[tuple[str | None, int | None]]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for name, position in reversed(frames):
        if name in found:
            break
        found |= {name: position} if name is not None else {}
    return found


test_16_2 = tried(
    check_16_2,
    (positions, "✓ The log alone says where"),
    (dict, "A frame of plain lines has no name"),
    (highest, "even if its position is lower: it is another file's"),
    (until_one_comes_again, "Each name has a last frame"),
    (lambda frames: positions(frames[::-1]), "The last frame of a name counts"),
    (lambda frames: None, "return an empty dict"),
    (not_none, "raised KeyError: None. An empty log has no names, and no `None` either"),
    (without_plain_frames, "A frame of plain lines has no name"),
    (used_up, "yours is {}. An earlier call is remembered, or has changed its arguments"),
    (lambda frames: {name: place for name, place in frames if place}, "0 is a position, too"),
    (higher_or_0, "must be {'a': 4}, yours is {'a': 9}. The newest frame is the last one"),
    (backwards, "✓ The log alone says where"),
    (lambda frames: dict(frame for frame in frames if None not in frame), "✓ The log alone"),
    (lambda frames: dict(frames[-1:]), "Each name has a position of its own"),
)
