"""Draw the path of the data: boxes in columns, and arrows between them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from itertools import pairwise
from typing import NamedTuple

from IPython.display import SVG

GAP, ROW = 40, 48
PLAIN, CHOSEN, LINE, INK = "#eef3f8", "#ffd27f", "#5b6b7b", "#22303c"
STYLE = "font-family:DejaVu Sans,Verdana,sans-serif;font-size:13px"


def flow(way: str, here: str = "") -> SVG:
    """A diagram such as `flow("items -> cpu_log sink -> data.0.csv | data.1.csv")`.

    `->` begins the next column, with an arrow from each box to each; `=>` begins it with an arrow
    from the first to the first, from the second to the second. `|` is the next box of a column;
    `here` is the box to point out. Raises `ValueError` for `=>` between unequal columns.
    """
    first, *rest = re.split(r"(->|=>)", way)
    links = rest[::2]
    names = [[name.strip() for name in column.split("|")] for column in (first, *rest[1::2])]
    height = max(map(len, names)) * ROW
    columns = _columns(names, height)
    shapes = [
        line
        for (left, right), link in zip(pairwise(columns), links, strict=True)
        for line in _arrows(left, right, link)
    ]
    shapes += [drawn(box, box.lines == [here]) for column in columns for box in column]
    return card(shapes, 0, columns[-1][0].right, height)


def _columns(names: list[list[str]], height: float) -> list[list[Box]]:
    """The boxes of each column: as wide as its longest name, spread around the centre."""
    columns, left = [], 0.0
    for column in names:
        width = width_of(column)
        first = height / 2 - (len(column) - 1) * ROW / 2
        columns.append([Box([n], left, first + at * ROW, width) for at, n in enumerate(column)])
        left += width + GAP
    return columns


def _arrows(left: list[Box], right: list[Box], link: str) -> list[str]:
    if link == "=>":
        if len(left) != len(right):
            raise ValueError(
                f"`=>` joins columns of as many boxes, not {len(left)} and {len(right)}: use `->`"
            )
        return [arrow(one, two, two.middle) for one, two in zip(left, right, strict=True)]
    # Where several arrows meet they end side by side, so that their heads do not pile up.
    step = min(10.0, (left[0].height - 12) / max(1, len(left) - 1))
    return [
        arrow(one, two, two.middle + (at - (len(left) - 1) / 2) * step)
        for at, one in enumerate(left)
        for two in right
    ]


# ---- What all diagrams are made of ---------------------------------------------------------------

LETTER, LINE_HEIGHT, PADDING = 7.6, 18, 22  # a letter of 13 pixels, rather too wide than too narrow
HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    f'orient="auto"><path d="M0 0 8 4 0 8z" fill="{LINE}"/></marker></defs>'
)


class Box(NamedTuple):
    """Lines of text with a frame around them."""

    lines: list[str]
    left: float
    middle: float
    width: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def height(self) -> int:
        return len(self.lines) * LINE_HEIGHT + 16


def width_of(lines: Iterable[str]) -> float:
    """Return the width of a box with these lines."""
    return max(map(len, lines)) * LETTER + PADDING


def drawn(box: Box, chosen: bool = False) -> str:
    first = box.middle + 5 - (len(box.lines) - 1) * LINE_HEIGHT / 2
    texts = "".join(
        f'<text x="{box.left + box.width / 2:.1f}" y="{first + at * LINE_HEIGHT}" '
        f'text-anchor="middle" fill="{INK}">{escape(line)}</text>'
        for at, line in enumerate(box.lines)
    )
    return (
        f'<rect x="{box.left:.1f}" y="{box.middle - box.height / 2}" width="{box.width:.1f}" '
        f'height="{box.height}" rx="6" fill="{CHOSEN if chosen else PLAIN}" stroke="{LINE}"/>'
        f"{texts}"
    )


def arrow(start: Box, end: Box, y: float, more: str = "") -> str:
    """From the right side of a box to the left side of another, at this height; `more` for SVG."""
    return (
        f'<line x1="{start.right:.1f}" y1="{start.middle}" x2="{end.left:.1f}" y2="{y}" '
        f'stroke="{LINE}" stroke-width="1.5" marker-end="url(#head)"{more}/>'
    )


def card(shapes: Iterable[str], left: float, right: float, height: float) -> SVG:
    """The shapes on a white card, so that the lines can be seen on a dark page as well."""
    size = f'width="{right - left + 24:.0f}" height="{height + 8:.0f}"'
    return SVG(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        f'viewBox="{left - 12:.0f} -4 {right - left + 24:.0f} {height + 8:.0f}" '
        f'style="{STYLE}">{HEAD}'
        f'<rect x="{left - 12:.0f}" y="-4" {size} rx="8" fill="white"/>{"".join(shapes)}</svg>'
    )
