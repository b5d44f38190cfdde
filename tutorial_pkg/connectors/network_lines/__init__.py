"""Format `network_lines`: lines that senders write to TCP ports, through a log on disk.

`docs/formats/network_lines.md` describes senders, receivers and the protocol. The files:

- `data_source`: the options, the format, its reader. `payload`: from frames to rows, in a task.
- `listener`: a thread for each port and each client. `tls`: certificates.
- `connection`: a port's log, and one client that writes to it.
- `dialogues`: plain lines, senders with a name, RELP. `protocol`: what both sides say.
- `positions`: how far senders with a name have come.
- `receiver`: a separate process that listens. `status`, `metrics`: how the ports are doing.
- `sender`: the other side, and plain lines. `forward`: a sender with a name. `follow`: its files
  that grow.
"""

from typing import TYPE_CHECKING

from tutorial_pkg.connectors.network_lines.data_source import NetworkLinesDataSource
from tutorial_pkg.connectors.network_lines.status import NetworkStatus, PortStatus, network_status
from tutorial_pkg.core.imports import lazy_names

if TYPE_CHECKING:  # what editors and type checkers see
    from tutorial_pkg.connectors.network_lines.sender import (
        LinesDroppedError as LinesDroppedError,
    )
    from tutorial_pkg.connectors.network_lines.sender import (
        SenderRefusedError as SenderRefusedError,
    )
    from tutorial_pkg.connectors.network_lines.sender import send_lines as send_lines
    from tutorial_pkg.connectors.network_lines.tls import client_tls as client_tls

__all__ = ["NetworkLinesDataSource", "NetworkStatus", "PortStatus", "network_status"]

__getattr__ = lazy_names(
    __name__,
    {
        "LinesDroppedError": "sender",
        "SenderRefusedError": "sender",
        "client_tls": "tls",
        "send_lines": "sender",
    },
)
