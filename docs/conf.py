"""The notebooks as a book: `make book`. Nothing is run again, and no network is needed."""

import re
from itertools import groupby

CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
# "maxRows (1 or more): …", "Guarantee: …", "`fill`   add what …"
ITEM = re.compile(r"\w+ \(|[A-Z]\w+: |``\.?\w+``  ")

ARGUMENT = re.compile(r"\w+: ")  # in a paragraph that begins with "Args:"
OPTION = re.compile(r"^(\w+)(?= \(|: )")
LABEL = re.compile(r"^([A-Z]\w+:)(?= )")
HEADINGS = ("Args:", "Options:")

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
html_theme_options = {
    "source_edit_link": "",
    "top_of_page_buttons": [],
    "light_css_variables": {"code-font-size": "75%"},  # so that most lines of code fit
}
html_static_path = ["static"]
html_css_files = ["book.css"]


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
    lines = [line.strip() for line in paragraph.splitlines() if line.strip()]
    begins, items = ARGUMENT if lines[:1] == ["Args:"] else ITEM, []
    for line in lines:
        if begins.match(line) or not items:
            items.append(line)
        else:
            items[-1] += f" {line}"  # whatever its indentation: it goes on
    items = [LABEL.sub(r"**\1**", item) for item in items if item not in HEADINGS]
    if len(items) == 1 and begins is ITEM:
        return items
    heading = ["**Options**", ""] if OPTION.match(items[0]) and begins is ITEM else []
    return heading + ["- " + OPTION.sub(r"``\1``", item) for item in items]


def without_options(app, what, name, obj, options, signature, returns):
    """A format is named, never constructed: what its class takes says nothing to a reader."""
    return ("", None) if name.endswith("DataSource") else None


def setup(app):
    app.connect("autodoc-process-docstring", as_lists)
    app.connect("autodoc-process-signature", without_options)
