"""The notebooks as a book: `make book`. Nothing is run again, and no network is needed."""

project = "Streaming connectors for Spark, in Python"
html_title = project
copyright = "the authors of tutorial_pkg"

extensions = ["myst_nb"]
root_doc = "docs/index"
include_patterns = ["docs/*.md", "notebooks/*.ipynb", "data/*.md"]
exclude_patterns = ["**/.ipynb_checkpoints"]

nb_execution_mode = "off"
myst_heading_anchors = 3
# The notebooks link to files of the package for readers at a laptop; here they become downloads.
suppress_warnings = ["mystnb.unknown_mime_type"]

html_theme = "furo"
html_copy_source = False
html_theme_options = {"source_edit_link": "", "top_of_page_buttons": []}
