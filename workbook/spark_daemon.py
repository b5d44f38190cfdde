"""One daemon of a cluster, as a child of this script, so that it ends when the notebook ends.

Arguments: those of Spark's own `spark-class`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from spark_connector_tests.query_process import end_with_parent
from tutorial_pkg.session.start import spark_home

if __name__ == "__main__":
    end_with_parent()
    if home := spark_home():
        os.environ["SPARK_HOME"] = str(home)
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    sys.exit(subprocess.run([spark_class, *sys.argv[1:]], check=False).returncode)
