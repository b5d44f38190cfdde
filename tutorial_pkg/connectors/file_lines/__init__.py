"""Format `file_lines`: lines of text files, as a batch or while the files grow.

- `data_source`: the options, the format, and the readers that Spark calls
- `files`: which files `path` means, and what a look at them shows
- `line_file`: one file: where lines begin and end, and how it is found again after a rotation
- `offset`: how far a query has read each file, in the checkpoint and in notes beside the files
- `tailing`: one look at growing files: what is new, and how much of it a batch takes
- `reading`: the byte ranges that tasks read
"""

from tutorial_pkg.connectors.file_lines.data_source import (
    FILE_OPTIONS,
    LEAST_LINE_BYTES,
    FileLinesDataSource,
    FileLinesReader,
    FileLinesStreamReader,
    stream_options,
)
from tutorial_pkg.connectors.file_lines.files import directories_of, local_path
from tutorial_pkg.connectors.file_lines.line_file import LineFile, TrackedFile
from tutorial_pkg.connectors.file_lines.offset import FileOffset, Notes
from tutorial_pkg.connectors.file_lines.reading import FileRange, chunks_of
from tutorial_pkg.connectors.file_lines.tailing import Tail
