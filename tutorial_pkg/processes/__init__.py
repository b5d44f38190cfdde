"""Processes that drills, lessons and tests start, kill and leave no trace of.

`query_process` runs a Spark query that can be killed like a machine, `services` real servers
(PostgreSQL, NATS, Kafka's protocol), `cluster` Spark's own master and workers (`spark_daemon` is
one of them).
"""
