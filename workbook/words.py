"""The workbook's own text, and the words in it; plain Python's TF-IDF, to compare with Spark's."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

WORD = re.compile(r"[a-z][a-z_]+")
# Link targets and tags have no words for readers.
NO_TEXT = re.compile(r"\]\([^)]*\)|<[^>]*>|https?://\S+")


class Line(NamedTuple):
    """A line of text of a notebook, by the notebook's number."""

    notebook: str
    line: str


def lines_of(folder: Path, numbers: Iterable[str]) -> list[Line]:
    """What the markdown cells of the notebooks with these `numbers` ("00", "01") say."""
    found = []
    for file in sorted(file for number in numbers for file in folder.glob(f"{number}_*.ipynb")):
        cells = json.loads(file.read_text())["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        found += [Line(file.name[:2], line) for line in text.splitlines() if line.strip()]
    return found


def words_of(line: str) -> list[str]:
    """Its words, in lower case."""
    return WORD.findall(NO_TEXT.sub(" ", line).lower())


def tf_idf(lines: Iterable[Line]) -> dict[tuple[str, str], float]:
    """The weight of each word in each notebook: how often, times how seldom elsewhere."""
    often = Counter((line.notebook, word) for line in lines for word in words_of(line.line))
    holding = Counter(word for _, word in often)
    notebooks = len({notebook for notebook, _ in often})
    return {key: tf * math.log(notebooks / holding[key[1]]) for key, tf in often.items()}


def search(index: dict[tuple[str, str], float], *wanted: str) -> list[tuple[str, float]]:
    """The notebooks that have all the words, the heaviest first."""
    having = [{notebook for notebook, word in index if word == one} for one in wanted]
    found = {n: sum(index[n, one] for one in wanted) for n in set.intersection(*having)}
    return sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
