"""The notebooks as a book: `make book`. Nothing is run again, and no network is needed."""

import re
from itertools import groupby

CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
# "maxRows (1 or more): …", "Guarantee: …", "`fill`   add what …"
ITEM = re.compile(r"\w+ \(|[A-Z]\w+: |``\.?\w+``  ")

project = "Streaming connectors for Spark, in Python"
html_title = project
copyright = "the authors of tutorial_pkg"

extensions = ["myst_nb", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = ["docs/*.md", "notebooks/*.ipynb", "data/*.md"]
exclude_patterns = ["**/.ipynb_checkpoints"]

nb_execution_mode = "off"
myst_heading_anchors = 3
# The notebooks link to files of the package for readers at a laptop; here they become downloads.
suppress_warnings = ["mystnb.unknown_mime_type"]

autodoc_typehints = "signature"
autodoc_preserve_defaults = True

html_theme = "furo"
html_copy_source = False
html_theme_options = {"source_edit_link": "", "top_of_page_buttons": []}


def as_lists(app, what, name, obj, options, lines):
    """Docstrings are made for `help()`: here `names` become literals, `option (what): …` a list."""
    paragraphs = "\n".join(lines).split("\n\n")
    lines.clear()
    for is_code, found in groupby(paragraphs, _is_code):
        if is_code:
            lines += ["::", "", *"\n\n".join(found).splitlines(), ""]
        else:
            lines += [line for text in found for line in (*_listed(CODE.sub(r"``\1``", text)), "")]


def _is_code(paragraph):
    lines = paragraph.splitlines()
    return bool(lines) and all(line.startswith("    ") for line in lines)


def _listed(paragraph):
    items = []
    for line in filter(None, map(str.strip, paragraph.splitlines())):
        if ITEM.match(line) or not items:
            items.append(line)
        else:
            items[-1] += f" {line}"  # whatever its indentation: it goes on
    return items if len(items) == 1 else [f"- {item}" for item in items]


def setup(app):
    app.connect("autodoc-process-docstring", as_lists)
