"""Spark sessions: start them, stop them, check the machine.

- `start.py`: `start_spark`, `stop_spark`, `register`, and the JVM.
- `settings.py`: Spark's settings and their order.
- `java.py`: finding Java, or installing it. `class_archive.py`: a faster start of the JVM.
- `cluster.py`: the master, shipping the package, waiting for workers.
- `graceful.py`: `run_until_signal` ends a job with its batch finished.
- `cell_errors.py`: short errors in notebooks. `doctor.py`: checks a machine, line by line.
"""
