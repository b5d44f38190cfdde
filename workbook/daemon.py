"""Run a command as a child of this script, and end it when the script's starter has ended.

Arguments: the number of the signal that ends the command, then the command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

if __name__ == "__main__":
    os.setsid()  # a notebook's interrupt must not end it
    child = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)

    def end_with_starter() -> None:
        sys.stdin.read()  # a pipe to the starter: it ends when that does
        number = int(sys.argv[1])
        if number == signal.SIGKILL:
            os.killpg(0, number)  # with all that the command has started
        child.send_signal(number)

    threading.Thread(target=end_with_starter, daemon=True).start()
    sys.exit(child.wait())
