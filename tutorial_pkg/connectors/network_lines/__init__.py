"""Format `network_lines`: lines that senders write to TCP ports, through a log on disk.

A line's way: `sender` → `listener` (sockets, whole lines, what is dropped) → the segment logs of
`core`, one for each port (`log_group`) → `log_reader` there (offsets, tasks) → `data_source`
(rows). `status` tells how the ports do.
"""

from tutorial_pkg.connectors.network_lines.data_source import NetworkLinesDataSource
from tutorial_pkg.connectors.network_lines.sender import send_lines
from tutorial_pkg.connectors.network_lines.status import NetworkStatus, PortStatus, network_status

__all__ = ["NetworkLinesDataSource", "NetworkStatus", "PortStatus", "network_status", "send_lines"]
