"""Draw the way of the data: boxes in columns, and arrows from column to column."""

from __future__ import annotations

import re
from html import escape
from itertools import pairwise
from typing import NamedTuple

from IPython.display import SVG

BOX_HEIGHT, GAP, ROW, PADDING = 34, 40, 48, 22
LETTER = 7.6  # the width of a letter of 13 pixels, rather too wide than too narrow
PLAIN, CHOSEN, LINE, INK = "#eef3f8", "#ffd27f", "#5b6b7b", "#22303c"
STYLE = "font-family:DejaVu Sans,Verdana,sans-serif;font-size:13px"


class Box(NamedTuple):
    name: str
    left: float
    middle: float
    width: float


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
    width = columns[-1][0].left + columns[-1][0].width
    shapes = [
        line
        for (left, right), link in zip(pairwise(columns), links, strict=True)
        for line in _arrows(left, right, link)
    ]
    shapes += [_drawn(box, box.name == here) for column in columns for box in column]
    # A white card, so that the lines can be seen on a dark page as well.
    return SVG(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 24:.0f}" height="{height + 8}" '
        f'viewBox="-12 -4 {width + 24:.0f} {height + 8}" style="{STYLE}">{HEAD}'
        f'<rect x="-12" y="-4" width="{width + 24:.0f}" height="{height + 8}" rx="8" fill="white"/>'
        f"{''.join(shapes)}</svg>"
    )


HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    f'orient="auto"><path d="M0 0 8 4 0 8z" fill="{LINE}"/></marker></defs>'
)


def _columns(names: list[list[str]], height: float) -> list[list[Box]]:
    """The boxes of each column: as wide as its longest name, spread around the centre."""
    columns, left = [], 0.0
    for column in names:
        width = max(map(len, column)) * LETTER + PADDING
        first = height / 2 - (len(column) - 1) * ROW / 2
        columns.append([Box(n, left, first + at * ROW, width) for at, n in enumerate(column)])
        left += width + GAP
    return columns


def _arrows(left: list[Box], right: list[Box], link: str) -> list[str]:
    if link == "=>":
        if len(left) != len(right):
            raise ValueError(
                f"`=>` joins columns of as many boxes, not {len(left)} and {len(right)}: use `->`"
            )
        return [_arrow(one, two.left, two.middle) for one, two in zip(left, right, strict=True)]
    # Where several arrows meet they end side by side, so that their heads do not pile up.
    step = min(10.0, (BOX_HEIGHT - 12) / max(1, len(left) - 1))
    return [
        _arrow(one, two.left, two.middle + (at - (len(left) - 1) / 2) * step)
        for at, one in enumerate(left)
        for two in right
    ]


def _arrow(start: Box, x: float, y: float) -> str:
    return (
        f'<line x1="{start.left + start.width:.1f}" y1="{start.middle}" x2="{x:.1f}" y2="{y}" '
        f'stroke="{LINE}" stroke-width="1.5" marker-end="url(#head)"/>'
    )


def _drawn(box: Box, chosen: bool) -> str:
    return (
        f'<rect x="{box.left:.1f}" y="{box.middle - BOX_HEIGHT / 2}" width="{box.width:.1f}" '
        f'height="{BOX_HEIGHT}" rx="6" fill="{CHOSEN if chosen else PLAIN}" stroke="{LINE}"/>'
        f'<text x="{box.left + box.width / 2:.1f}" y="{box.middle + 5}" text-anchor="middle" '
        f'fill="{INK}">{escape(box.name)}</text>'
    )
