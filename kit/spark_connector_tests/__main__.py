"""`python -m` this package `module:function`: an examination in a plain Spark session."""

import sys

from spark_connector_tests.command import main

if __name__ == "__main__":
    sys.exit(main())
