"""What notebooks and tests need for a fault drill; it lives in `core`, as the kit drills too."""

from tutorial_pkg.core.query_process import QueryProcess, end_with_parent, wait_until

__all__ = ["QueryProcess", "end_with_parent", "wait_until"]
