"""A sink into JSON files: a file a batch; and the same one with a mistake: a file a task, at once."""
import json
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage

from tutorial_pkg.testing import StreamSink


class Rows(WriterCommitMessage):
    def __init__(self, query, rows):
        self.query, self.rows = query, rows


class Writer(DataSourceStreamWriter):
    def __init__(self, options):
        self.folder = Path(options["path"])

    def write(self, iterator):
        query = TaskContext.get().getLocalProperty("sql.streaming.queryId")
        return Rows(query, [row.asDict() for row in iterator])

    def commit(self, messages, batchId):
        done = [message for message in messages if message]
        if not done:
            return
        name = f"{done[0].query}-{batchId}.json"
        draft = self.folder / f".{name}"
        draft.write_text("".join(json.dumps(row) + "\n" for m in done for row in m.rows))
        draft.rename(self.folder / name)

    def abort(self, messages, batchId):
        pass


class Jsons(DataSource):
    @classmethod
    def name(cls):
        return "jsons"

    def streamWriter(self, schema, overwrite):
        if overwrite:
            raise ValueError("jsons only appends")
        return Writer(self.options)


class Eager(Jsons):
    @classmethod
    def name(cls):
        return "jsons_eager"

    def streamWriter(self, schema, overwrite):
        class Wrong(Writer):
            def write(self, iterator):
                context = TaskContext.get()
                query, batch = (context.getLocalProperty(k) for k in ("sql.streaming.queryId", "streaming.sql.batchId"))
                with (self.folder / f"{query}-{batch}-{context.partitionId()}.json").open("w") as file:
                    file.writelines(json.dumps(row.asDict()) + "\n" for row in iterator)
                return WriterCommitMessage()

            def commit(self, messages, batchId):
                pass

        return Wrong(self.options)


def describe(kind):
    def my_sink(folder):
        def read():
            lines = [line for file in folder.glob("*.json") for line in file.read_text().splitlines()]
            return [json.loads(line)["value"] for line in lines]

        return StreamSink(kind, read, {"path": folder})

    return my_sink


right, wrong = describe(Jsons), describe(Eager)
