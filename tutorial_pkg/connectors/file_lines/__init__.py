"""Format `file_lines`: lines of text files, as a batch or while the files grow.

A line's way: `file_search` (which files `path` means) → `watch` (which of them changed, with
`hints` of the kernel) → `tailing` (how far each can be read), with `rotation` (what happens when
a file is renamed, replaced or truncated) → `limits` (how much a batch takes) → `offset` and
`folding` (what the checkpoint holds, and what notes beside the files hold) → `ranges` (what tasks
read), with `line_file` (where lines begin and end).
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
