"""Format `file_lines`: lines of text files, as a batch or while the files grow.

A line's way: `file_search` (which files `path` means) → `tailing` (how far each can be read, also
after a rotation) → `line_file` (where lines begin and end) → `data_source` (tasks, rows).
"""

from tutorial_pkg.connectors.file_lines.data_source import (
    FILE_OPTIONS,
    FileLinesDataSource,
    FileLinesReader,
    FileLinesStreamReader,
)
from tutorial_pkg.connectors.file_lines.file_search import local_path

__all__ = [
    "FILE_OPTIONS",
    "FileLinesDataSource",
    "FileLinesReader",
    "FileLinesStreamReader",
    "local_path",
]
