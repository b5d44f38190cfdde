"""Everything behind `start_spark()`.

Start with `start` (the session, its JVM, `register`). It uses `settings` (how Spark is
configured), `java` (which Java, and installing one), `spark_home` and `class_archive` (a faster
start), `socket_folder` (Unix sockets between the JVM and Python) and `cluster_start` (what a
cluster needs). `graceful` ends queries on a signal; `doctor` checks a machine on which nothing may
work yet, so this file imports nothing.
"""
