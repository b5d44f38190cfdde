"""Format `file_lines`: lines of text files, as a batch or while the files grow.

- `data_source`: the options, the format, and the readers that Spark calls
- `files`: which files `path` means, and what a look at them shows
- `line_file`: where lines begin and end in one file
- `offset`: how far a query has read each file, as the checkpoint holds it
- `notes`: the positions of files at rest, beside the files, so that offsets stay small
- `rotation`: where a known file is after it was renamed, replaced, copied or compressed
- `tailing`: one look at growing files: what is new, and how much of it a batch takes
- `reading`: the byte ranges that tasks read
"""

from tutorial_pkg.connectors.file_lines.data_source import (
    FILE_OPTIONS,
    FileLinesDataSource,
    FileLinesReader,
    FileLinesStreamReader,
)
from tutorial_pkg.connectors.file_lines.files import local_path
from tutorial_pkg.connectors.file_lines.line_file import LineFile
from tutorial_pkg.connectors.file_lines.offset import FileOffset, TrackedFile
from tutorial_pkg.connectors.file_lines.tailing import Tail

__all__ = [
    "FILE_OPTIONS",
    "FileLinesDataSource",
    "FileLinesReader",
    "FileLinesStreamReader",
    "FileOffset",
    "LineFile",
    "Tail",
    "TrackedFile",
    "local_path",
]
