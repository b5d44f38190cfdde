"""Run a command as a child of this script, and end it when the script's starter has ended.

Arguments: the number of the signal that ends the command, then the command.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

if __name__ == "__main__":
    os.setsid()  # a notebook's interrupt must not end it
    child = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)

    def end_with_starter() -> None:
        sys.stdin.read()  # a pipe to the starter: it ends when that does
        child.send_signal(int(sys.argv[1]))

    threading.Thread(target=end_with_starter, daemon=True).start()
    sys.exit(child.wait())
