"""A real rsyslogd that sends the lines of a file over RELP."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

_CONFIGURATION = """
global(workDirectory="{work}")
module(load="imfile")
module(load="omrelp" tls.tlslib="openssl")
input(type="imfile" file="{file}" tag="app:" facility="local0" ruleset="out"
      persistStateInterval="1")
ruleset(name="out" queue.type="LinkedList" queue.filename="queue" queue.saveOnShutdown="on") {{
  action(type="omrelp" target="127.0.0.1" port="{port}" timeout="10" {tls}
         action.resumeRetryCount="-1" action.resumeInterval="1")
}}
"""


def rsyslogd() -> Path:
    """Return the system's rsyslog, which needs RELP. Raises `FileNotFoundError`."""
    program = shutil.which("rsyslogd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program and any(Path("/usr").glob("lib*/**/rsyslog/omrelp.so")):
        return Path(program)
    raise FileNotFoundError("rsyslog with RELP is missing: bash .ci/packages")


class Rsyslog:
    """Started by `with`; `file` is what it sends, and may be there before, and grow."""

    def __init__(self, folder: Path, port: int, tls: str = "") -> None:
        self.file = folder / "sent.log"
        self._folder = folder
        work = folder / "work"
        work.mkdir(parents=True)
        text = _CONFIGURATION.format(work=work, file=self.file, port=port, tls=tls)
        (folder / "rsyslog.conf").write_text(text)

    def write(self, lines: list[str]) -> None:
        with self.file.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def __enter__(self) -> Rsyslog:
        words = ["-n", "-f", self._folder / "rsyslog.conf", "-i", self._folder / "pid"]
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [rsyslogd(), *words], stdout=output, stderr=output, cwd=self._folder
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
