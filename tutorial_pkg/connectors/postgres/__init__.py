"""Format `postgres`: PostgreSQL as a source and a sink.

- `data_source`: the format's class with its help; chooses the source or the sink
- `options`: all options, and table names
- `connection`: connects, with settings that no server or role can change; which table a name means
- `columns`: the Spark type of each column, the SELECT list, and checks of the values
- `tables`: source for batches, and for a stream of inserted rows
- `slot`: the replication slot, its publication and its snapshot
- `pgoutput`: messages of the server's log, parsed column by column
- `changes`: source for a stream of changes
- `csv_copy`: record batches as CSV for COPY
- `sink`: stages rows in the tasks, publishes them once per batch

Only `data_source` and `options` can be imported without the extra `postgres`.
"""

from tutorial_pkg.connectors.postgres.data_source import PostgresDataSource

__all__ = ["PostgresDataSource"]
