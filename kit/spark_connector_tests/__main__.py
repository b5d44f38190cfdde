"""`python -m spark_connector_tests module:function`."""

import sys

from spark_connector_tests.command import main

if __name__ == "__main__":
    sys.exit(main())
