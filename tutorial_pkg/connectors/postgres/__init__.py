"""Format `postgres`: PostgreSQL as a source and a sink.

Read in this order: `data_source` (what there is), `options`, `connection`; then a row's way: out of
a table (`inserted`, `table_reader`, `columns`), out of the server's log (`changes`, `slot`,
`pgoutput`), or into a table (`sink`, `csv_copy`). Only `data_source` and `options` can be imported
without the extra `postgres`.
"""

from tutorial_pkg.connectors.postgres.data_source import PostgresDataSource

__all__ = ["PostgresDataSource"]
