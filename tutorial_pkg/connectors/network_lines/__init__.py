"""Format `network_lines`: lines that senders write to TCP ports, through a log on disk.

A line's way: `sender` → `listener` (a thread for each port; `ports` gives it the socket,
`whole_lines` makes lines of bytes and drops others, `confirm` and `connection` answer the sender)
→ `durable_log`: a log for each port (`group`), offsets and tasks (`reader`)
→ `data_source` (rows). `status` tells how the ports do.
"""

from tutorial_pkg.connectors.network_lines.data_source import NetworkLinesDataSource
from tutorial_pkg.connectors.network_lines.sender import LinesDroppedError, send_lines
from tutorial_pkg.connectors.network_lines.status import NetworkStatus, PortStatus, network_status

__all__ = [
    "LinesDroppedError",
    "NetworkLinesDataSource",
    "NetworkStatus",
    "PortStatus",
    "network_status",
    "send_lines",
]
