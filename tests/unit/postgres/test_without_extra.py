"""Format `postgres` where its clients are not installed."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
sys.modules["psycopg"] = sys.modules["adbc_driver_postgresql"] = None
from tutorial_pkg import PostgresDataSource
try:
    PostgresDataSource({"url": "postgresql://nowhere", "table": "t"}).schema()
except ImportError as error:
    print(error)
"""


def test_the_package_works_and_the_format_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    wanted = "format `postgres` needs the package psycopg: pip install 'tutorial_pkg[postgres]'\n"
    assert (done.stdout, done.stderr) == (wanted, "")
