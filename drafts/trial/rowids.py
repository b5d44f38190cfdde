"""A source over a SQLite table by rowid; and the same one with a mistake: `read` has no upper end."""
import sqlite3
from contextlib import closing

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from tutorial_pkg.testing import StreamSource


class Range(InputPartition):
    def __init__(self, start, end):
        self.start, self.end = start, end


class Reader(DataSourceStreamReader):
    def __init__(self, options):
        self.database, self.table = options["database"], options["table"]

    def _ask(self, question, *values):
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute(question, values).fetchall()

    def initialOffset(self):
        return {"rowid": 0}

    def latestOffset(self):
        return {"rowid": self._ask(f"SELECT coalesce(max(rowid), 0) FROM {self.table}")[0][0]}

    def partitions(self, start, end):
        return [Range(start["rowid"], end["rowid"])]

    def read(self, part):
        question = f"SELECT n FROM {self.table} WHERE rowid > ? AND rowid <= ?"
        yield from self._ask(question, part.start, part.end)


class Rowids(DataSource):
    @classmethod
    def name(cls):
        return "rowids"

    def schema(self):
        return "n LONG"

    def streamReader(self, schema):
        return Reader(self.options)


class OpenEnd(Rowids):
    @classmethod
    def name(cls):
        return "rowids_open_end"

    def streamReader(self, schema):
        class Wrong(Reader):
            def read(self, part):
                yield from self._ask(f"SELECT n FROM {self.table} WHERE rowid > ?", part.start)

        return Wrong(self.options)


def describe(kind):
    def my_source(folder):
        database = folder / "rows.db"
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("CREATE TABLE numbers (n)")

        def feed(numbers):
            with closing(sqlite3.connect(database)) as connection, connection:
                connection.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in numbers])

        return StreamSource(kind, {"database": database, "table": "numbers"}, feed=feed)

    return my_source


right, wrong = describe(Rowids), describe(OpenEnd)
