"""The notebooks as a book: `make book`. Nothing is run again, and making it needs no network.

A reader's browser draws the diagrams with Mermaid, which it loads from the internet.
"""

import re

from docutils import nodes

NAME = re.compile(r"(?<!`)`([^`]+)`(?!`)")
FIELD = re.compile(r"^([A-Z]\w+): (?=\S)")  # "Guarantee: exactly once …"
EXAMPLE = re.compile(r"\S.*\n\n    ")  # a line, an empty one, and one of code

project = "Streaming connectors for Spark, in Python"
html_title = project
copyright = "the authors of tutorial_pkg"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinxcontrib.mermaid"]
myst_fence_as_directive = ["mermaid"]  # as GitHub and JupyterLab draw it
root_doc = "docs/index"
include_patterns = ["docs/*.md", "docs/formats/*.md", "notebooks/*.ipynb", "data/*.md"]
exclude_patterns = ["**/.ipynb_checkpoints"]

nb_execution_mode = "off"
myst_heading_anchors = 3
# The notebooks link to files of the package for readers at a laptop; here they become downloads.
suppress_warnings = ["mystnb.unknown_mime_type"]

napoleon_custom_sections = [("Options", "params_style")]
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


def for_sphinx(app, what, name, obj, options, lines):
    """Docstrings are written for `help()`: mark their code, and make fields of `Guarantee: …`."""
    text = NAME.sub(r"``\1``", "\n".join(lines))
    lines[:] = text.replace("default *)", "default ``*``)").splitlines()  # no emphasis
    made, in_field = [], False
    for number, line in enumerate(lines):
        if EXAMPLE.match("\n".join(lines[number - 2 : number + 1])):
            made += ["::", ""]
        is_field = FIELD.match(line)
        in_field = bool(is_field or (in_field and line))
        made.append(FIELD.sub(r":\1: ", line) if is_field else "    " * in_field + line)
    lines[:] = [*made, ""]


def without_options(app, what, name, obj, options, signature, returns):
    """A format is named, never constructed: what its class takes says nothing to a reader."""
    return ("", None) if name.endswith("DataSource") else None


def number(app, doctree):
    """Texts say "notebook 07": so do the titles, here and in the table of contents."""
    if named := re.match(r"notebooks/(\d\d)_", app.env.docname):
        title = next(doctree.findall(nodes.title))
        title.insert(0, nodes.Text(f"{named[1]} – "))


def setup(app):
    app.connect("doctree-read", number, priority=400)  # before the titles are collected
    app.connect("autodoc-process-docstring", for_sphinx, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", without_options)
