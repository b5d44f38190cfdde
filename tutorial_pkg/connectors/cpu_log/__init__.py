"""Format `cpu_log`: rows become lines of files that grow by whole batches, exactly once.

A row's way: `data_source` (options, tasks, commit) → `line_format` (the line, with the load that
`monitor` measured) → `staging` (a task's files, which nobody reads) → `publish` (the protocol) →
`applying` (into the files that readers see; `data_files` names them). In the protocol,
`checkpoint_plan` tells which batch it is, `query_owner` who else writes, `state_folder` has the
lock, and `record` is the commit point. At a `crash_point` a drill can have it stand still.
It is read back by what `file_lines` offers.
"""

from tutorial_pkg.connectors.cpu_log.data_files import DATA_FILES
from tutorial_pkg.connectors.cpu_log.data_source import CpuLogDataSource, parse_cpu_log
from tutorial_pkg.connectors.cpu_log.monitor import CpuMonitor

__all__ = ["DATA_FILES", "CpuLogDataSource", "CpuMonitor", "parse_cpu_log"]
