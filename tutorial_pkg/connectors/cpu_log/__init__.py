"""Format `cpu_log`: rows become lines of files that grow by whole batches, exactly once.

- `data_source`: the options, and the way back from files to rows, by `file_lines`
- `sink`: what tasks stage and the driver commits, as functions of a `SinkBuilder`
- `line_format`: rows to lines, and lines to rows
- `monitor`: the CPU load in each line
- `publish`: the protocol: stage, record, apply, recover; and `CRASH_AT` to stop it at a step
- `record`: the names of the files, and the commit record, `_cpu_log/record.json`
"""

from tutorial_pkg.connectors.cpu_log.data_source import CpuLogDataSource, parse_cpu_log
from tutorial_pkg.connectors.cpu_log.line_format import format_lines
from tutorial_pkg.connectors.cpu_log.monitor import CpuMonitor
from tutorial_pkg.connectors.cpu_log.publish import CRASH_AT
