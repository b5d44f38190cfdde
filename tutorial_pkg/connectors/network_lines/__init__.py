"""Format `network_lines`: lines that senders write to TCP ports, through a log on disk.

The path of a line: `sender` (or `forward`, for senders with a name) → `listener` (a thread for each
port; `ports` gives it the socket, `secure_socket` encrypts, `tls` says who may connect) → whole
lines (`whole_lines` for plain senders; `named` and `relp` for those that wait for answers) →
`durable_log`: a log for each port (`group`), offsets and tasks (`reader`) → `data_source`, `rows`.
`confirm` lets answers wait for the disk, `names` keeps what is known of senders, `notes` has what
is in the log next to the lines. `receiver` is a process of its own for all of that; `status` and
`metrics` say how the ports are doing.

Who is told what, and when
--------------------------
*Plain lines* (`nc`, `send`, `send_lines`). The receiver says nothing until the sender has ended its
side. When all whole lines are on disk it closes its own side properly, and that is the
confirmation. Anything else is a reset: some lines may not be there, and nobody knows which. Dropped
lines are reported before a reset: `network_lines dropped: 1 too_long`. `send_lines` accepts nothing
else as a confirmation: no other text, no close before it has closed its own side, and no silence of
`timeout` seconds. But anything that reads everything and then closes looks like a receiver; TLS
tells them apart.

*A sender with a name* (`send --name`, `send --follow`) begins with a line that begins with a NUL;
nothing else it says looks like a line, and a client that does not greet notices nothing. Both sides
send JSON, one object per line; `→` marks what the sender says:

    → \\0network_lines {"version":1,"name":"host-7"}
    ← {"position":…,"block_bytes":…,"block_rows":…,"line_bytes":…,"idle_seconds":…}
    → {"bytes":12,"position":…}    and 12 bytes: whole lines, a *block*
    ← {"stored":1}                 the first block of this connection is on disk
    → {"bytes":0}                  still there; answered as the last block was
    ← {"refused":"why","in_use":false}

The position in the welcome is that of the last block in the log, or null. Its meaning is up to the
sender: for a file it is the next byte and digests of what is before it, for files that grow an
offset of `file_lines`. So a sender keeps nothing itself. It begins where the position says, and
sends up to eight blocks before it waits for the first one's `stored`, which comes after the sync,
never before. It ends its side, and the receiver closes properly after the last `stored`. Whatever
breaks in between, the next welcome tells the truth: a block is in the log as a whole, with its
position, or it is not there. A name has one connection at a time; with certificates, it belongs to
the client that used it first.

*RELP* (`protocol=relp`): each message is answered `200 OK` after the sync. rsyslog resends what a
broken connection left unanswered, including what is in the log already: at least once.

*With TLS* a good end is TLS's own (`close_notify`), which nobody in between can forge. A client
that is refused sees an alert of TLS, or a line of text: `network_lines refused: …`.

*The query* learns only of lines that are on disk. A separate receiver says in `received.json` how
far it has come, and learns from the query's `query/reported.json` what it need not keep
(`durable_log.handover`).

What is in the log
------------------
Frames of `durable_log.segments`. A payload is whole lines and, if it does not end with a newline,
a note after them: JSON, its length, a NUL byte. `client` is who sent the frame's lines, as the
certificate says; `senders` has, by name, the position after these lines, and `count`, which is
higher in newer entries; `lengths` tells apart rows that contain newlines. A frame has the lines of
one client, and those of a sender with a name have frames of their own. Each segment's first frame
repeats all positions, and the newest segment is never deleted: it alone is read at the start. Logs
of versions that knew no notes are read as they are.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tutorial_pkg.connectors.network_lines.data_source import NetworkLinesDataSource

if TYPE_CHECKING:  # the rest is imported when it is first asked for, as in `tutorial_pkg`
    from tutorial_pkg.connectors.network_lines.sender import (
        LinesDroppedError,
        SenderRefusedError,
        send_lines,
    )
    from tutorial_pkg.connectors.network_lines.status import (
        NetworkStatus,
        PortStatus,
        network_status,
    )
    from tutorial_pkg.connectors.network_lines.tls import client_tls

_MODULES = {
    "LinesDroppedError": "sender",
    "NetworkStatus": "status",
    "PortStatus": "status",
    "SenderRefusedError": "sender",
    "client_tls": "tls",
    "network_status": "status",
    "send_lines": "sender",
}

__all__ = [
    "LinesDroppedError",
    "NetworkLinesDataSource",
    "NetworkStatus",
    "PortStatus",
    "SenderRefusedError",
    "client_tls",
    "network_status",
    "send_lines",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
