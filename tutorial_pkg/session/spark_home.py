"""Spark's folder without its zipped copy of PySpark, so that Spark's Python processes start faster.

Spark puts `python/lib/pyspark.zip` of its home first on the path of each Python process it starts,
and what is imported from a zip is compiled each time: a second of work, in six processes before the
first row of a stream. Without it they import the PySpark that is installed, from its bytecode.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from pathlib import Path

import pyspark

from tutorial_pkg.core.places import work_dir


def spark_home() -> Path | None:
    """A folder of links to all of PySpark's own but the zip; one for each PySpark of this project.

    None where `SPARK_HOME` names another, or where the workers' Python is another than this one:
    it might have no PySpark but the one in the zip.
    """
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    if "SPARK_HOME" in os.environ or python != sys.executable:
        return None
    installed = Path(pyspark.__file__).parent
    home = work_dir("spark-home", hashlib.sha256(bytes(installed)).hexdigest()[:12])
    for entry in installed.iterdir():
        if entry.name != "python":
            with contextlib.suppress(FileExistsError):
                (home / entry.name).symlink_to(entry)
    return home
