"""Draw the way of the data: boxes in columns, an arrow from each to each of the next column."""

from __future__ import annotations

from html import escape
from itertools import pairwise

from IPython.display import SVG

BOX_WIDTH, BOX_HEIGHT, GAP, ROW = 132, 34, 34, 46
PLAIN, CHOSEN, LINE = "#eef3f8", "#ffd27f", "#5b6b7b"
STYLE = "font-family:sans-serif;font-size:13px"


def flow(way: str, here: str = "") -> SVG:
    """A diagram such as `flow("items -> cpu_log sink -> data.0.csv | data.1.csv")`.

    `->` begins the next column, `|` the next box of a column; `here` is the box to point out.
    """
    columns = [[name.strip() for name in column.split("|")] for column in way.split("->")]
    height = max(len(column) for column in columns) * ROW
    width = len(columns) * (BOX_WIDTH + GAP) - GAP
    shapes = [_arrow(*ends) for ends in _arrows(columns, height)]
    for at, column in enumerate(columns):
        for place, name in zip(_heights(column, height), column, strict=True):
            shapes.append(_box(at * (BOX_WIDTH + GAP), place, name, name == here))
    # A white ground, so that the lines can be seen on a dark theme as well.
    return SVG(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 16}" height="{height + 8}" '
        f'viewBox="-8 -4 {width + 16} {height + 8}" style="{STYLE}">{_HEAD}'
        f'<rect x="-8" y="-4" width="{width + 16}" height="{height + 8}" fill="white"/>'
        f"{''.join(shapes)}</svg>"
    )


_HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    f'orient="auto"><path d="M0 0 8 4 0 8z" fill="{LINE}"/></marker></defs>'
)


def _heights(column: list[str], height: int) -> list[float]:
    """Where the middles of the column's boxes are: spread evenly around the centre."""
    first = height / 2 - (len(column) - 1) * ROW / 2
    return [first + number * ROW for number in range(len(column))]


def _arrows(columns: list[list[str]], height: int) -> list[tuple[float, float, float, float]]:
    return [
        (at * (BOX_WIDTH + GAP) + BOX_WIDTH, y1, (at + 1) * (BOX_WIDTH + GAP), y2)
        for at, (left, right) in enumerate(pairwise(columns))
        for y1 in _heights(left, height)
        for y2 in _heights(right, height)
    ]


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}" stroke-width="1.5" '
        'marker-end="url(#head)"/>'
    )


def _box(x: float, y: float, name: str, chosen: bool) -> str:
    return (
        f'<rect x="{x}" y="{y - BOX_HEIGHT / 2}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" '
        f'fill="{CHOSEN if chosen else PLAIN}" stroke="{LINE}"/>'
        f'<text x="{x + BOX_WIDTH / 2}" y="{y + 5}" text-anchor="middle">{escape(name)}</text>'
    )
