"""Format `cpu_log`: rows become lines of files that grow by whole batches, exactly once.

A row's way: `data_source` (options, tasks, commit) → `line_format` (the line, with the load that
`monitor` measured) → `publish` (staged, recorded, applied; `query_owner` keeps a second query out).
It is read back by what `file_lines` offers.
"""

from tutorial_pkg.connectors.cpu_log.data_source import CpuLogDataSource, parse_cpu_log
from tutorial_pkg.connectors.cpu_log.monitor import CpuMonitor

__all__ = ["CpuLogDataSource", "CpuMonitor", "parse_cpu_log"]
