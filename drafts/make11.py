import nbformat, sys
from nbformat.v4 import new_notebook, new_markdown_cell, new_code_cell
cells=[]
def md(text): cells.append(new_markdown_cell(text.strip("\n"), id=f"cell-{len(cells):02}"))
def code(text, *tags, **meta):
    m={}
    if tags: m["tags"]=list(tags)
    m.update(meta)
    cells.append(new_code_cell(text.strip("\n"), id=f"cell-{len(cells):02}", metadata=m))
def solution(text): code(text,"solution","hide-input",jupyter={"source_hidden":True})
def broken(text): code(text,"nbval-ignore-output","broken-on-purpose")

md('''
# Prove it

**You find out, in seconds, whether a source or a sink keeps what it promises: yours, Spark's own, or anybody's.**

*Time: 50 minutes. Read before: [03](03_file_source.ipynb), [08](08_exactly_once.ipynb), [09](09_your_own_source.ipynb) and
[10](10_your_own_sink.ipynb). Afterwards you can: describe a connector to the conformance kit, read its report, tell five
classic mistakes from their symptoms, mend them, and say what no examination can know.*
''')
code('''
import inspect
from pathlib import Path

from tutorial_pkg import SourceBuilder, start_spark
from tutorial_pkg.core.worker import task_property, this_task
from tutorial_pkg.testing import SOURCE_PROMISES, StreamSink, StreamSource, examine_sink, examine_source
from tutorial_pkg.workbook.checks import check_11
from tutorial_pkg.workbook.diagrams import flow
from tutorial_pkg.workbook.number_files import NumberReader, NumberWriter, Slice, Values, numbers_in, sink_of, source_of

spark = start_spark("11 prove it")
flow("your feed -> source -> query -> ledger -> report", here="source")
''')
md('''
## A promise is a small trial

In ten notebooks you have restarted queries, repeated batches and killed drivers, each time by hand, for one connector. The
**conformance kit** does all of it for any connector, from outside: it gives a source rows with the numbers 0, 1, 2 …, runs a real
query, does something unpleasant to it, and looks into a ledger which numbers came, and how often.

A promise has a sentence, a trial and a remedy. These are the ones for sources.
''')
code('''
for promise in SOURCE_PROMISES:
    print(f"{promise.name:18}", promise.sentence)
repeated = next(promise for promise in SOURCE_PROMISES if promise.name == "repeated_batch")
print("\\nfor example", repeated.name, "|", repeated.how, "|", repeated.remedy, sep="\\n")
''')
md('''
All that the kit must be told is how to feed your source. `describe(folder)` gets an empty folder, and returns one small object: what to
read, with which options, and a function that feeds it. Our sources read numbers from files that appear in the folder; so to feed
them is to write a file, under another name first, so that nobody sees half of it.

All promises together take the better part of a minute. Here you try four at a time: `only=`. The readers of this notebook begin
with what is printed below; `partitions` and `read` come with each.
''')
code('''
def examine(reader):
    def describe(folder):
        def feed(numbers):
            (folder / ".draft").write_text("".join(f"{number}\\n" for number in numbers))
            (folder / ".draft").rename(folder / f"{numbers[0]:09}.txt")
        return StreamSource(source_of(reader), {"path": folder}, feed=feed)
    return examine_source(describe, spark, only=["every_row_once", "same_rows_again", "restart", "repeated_batch"])


print(inspect.getsource(NumberReader))
''')
md('''
## Mistake 1: the forgetful source

Five connectors follow, each some thirty lines with what is above. Each works when you try it, and has **one** mistake, which is
in more than one collection on the internet. Read the code, then predict, then run.

**Predict:** which of the four will it break: every row once, the same rows when a batch is read again, a restart, a repeated batch?
''')
broken('''
class Forgetful(NumberReader):
    done = 0
    def partitions(self, start, end):
        first, self.done = self.done, end["next"]
        return [Slice(first, self.done)]
    def read(self, part):
        yield from ((number,) for number in numbers_in(self.path)[part.start : part.end])


reports = {"Forgetful": examine(Forgetful)}
reports["Forgetful"]
''')
md('''
**What just happened?** One promise is broken. The report names it, says what was seen, and what to do. `self.done` was right as
long as the reader lived. After a restart there is a new one, with `done` at 0, and all rows come again. Spark had kept the right
number all the time, in its checkpoint: it is the `start` that `partitions` is given.

> **In Jet and Flink this is called …** Flink has such a suite for its own connectors, `SourceTestSuiteBase`: one split, several,
> savepoint, scaling, failover. Whoever writes a connector there inherits it; under pytest you do the same with `StreamSourceTests`.

## Exercise 1: mend it

Write the class anew, without the mistake. The check is the kit.

<details><summary>Hint</summary><code>partitions</code> must use its <code>start</code>, and nothing that is in
<code>self</code> and changes.</details>
''')
code('''
answer = None  # Your code here: class Mended(NumberReader): ...
''')
solution('''
# Solution
class Mended(NumberReader):
    def partitions(self, start, end):
        return [Slice(start["next"], end["next"])]

    def read(self, part):
        yield from ((number,) for number in numbers_in(self.path)[part.start : part.end])


solution = Mended
''')
code('''
check_11(answer or solution, NumberReader, examine)
''')
md('''
## Mistake 2: the greedy source

**Predict:** nothing in `self` this time. A batch fails in its sink; meanwhile more rows come; the query is started again. What is in
the ledger?
''')
broken('''
class Greedy(NumberReader):
    def partitions(self, start, end):
        return [Slice(start["next"], end["next"])]
    def read(self, part):
        yield from ((number,) for number in numbers_in(self.path)[part.start :])


reports["Greedy"] = examine(Greedy)
reports["Greedy"]
''')
md('''
**What just happened?** `read` takes all that is there *now*. The first time that is what `latestOffset` has seen. When the batch is
repeated there is more, and those rows come once with this batch, and once with the next. Sometimes a restart shows it too, when a row
comes between `latestOffset` and `read`. Such a mistake passes a hundred tests, and fails on the first busy day.

## Exercise 2: mend it

<details><summary>Hint</summary>The partition knows where it ends.</details>
''')
code('''
answer = None  # Your code here: class Mended(Greedy): ...
''')
solution('''
# Solution
class Mended(Greedy):
    def read(self, part):
        yield from ((number,) for number in numbers_in(self.path)[part.start : part.end])


solution = Mended
''')
code('''
check_11(answer or solution, NumberReader, examine)
''')
md('''
## Mistake 3: the cautious source

It wants to be sure that no row ever comes twice, whoever asks. So it notes in a file what it has handed out.

**Predict:** is that safer, or not? Which of the four does it keep?
''')
broken('''
class Cautious(NumberReader):
    def partitions(self, start, end):
        return [Slice(start["next"], end["next"])]
    def read(self, part):
        note = Path(self.path) / "handed-out"
        first = int(note.read_text()) if note.exists() else 0
        yield from ((number,) for number in numbers_in(self.path)[first : part.end])
        note.write_text(str(part.end))
reports["Cautious"] = examine(Cautious)
reports["Cautious"]
''')
md('''
**What just happened?** `read` may be called several times for the same partition: by a second action on the batch, by a task that is tried again, by a
repeated batch. Whoever notes, deletes or acknowledges in `read` gives the rows once, and then never again: **lost**. That no row
counts twice is not the source's business. It must give the same rows, as often as it is asked. Spark says when a batch is
through: `commit(end)` of the *source*, with the next batch.

## Exercise 3: mend it

<details><summary>Hint</summary>What would the class be without its note?</details>
''')
code('''
answer = None  # Your code here: class Mended(Cautious): ...
''')
solution('''
# Solution
class Mended(Cautious):
    def read(self, part):
        yield from ((number,) for number in numbers_in(self.path)[part.start : part.end])


solution = Mended
''')
code('''
check_11(answer or solution, NumberReader, examine)
''')
md('''
## Mistake 4: the appending sink

For a sink the kit writes numbered rows, and must be told how to read them back: `read()` returns all that a reader sees now.
''')
code('''
def examine_writer(writer):
    def describe(folder):
        def read():
            return [line for file in folder.glob("*.txt") for line in file.read_text().splitlines()]
        return StreamSink(sink_of(writer), read, {"path": folder})
    return examine_sink(describe, spark, only=["every_row_once", "repeated_batch", "failed_batch"])
''')
md('''
**Predict:** every row once, a batch that fails in a task, a batch that Spark repeats after a crash: which one goes wrong?
''')
broken('''
class Appender(NumberWriter):
    def write(self, iterator):
        return Values(task_property("sql.streaming.queryId"), [row.value for row in iterator])
    def commit(self, messages, batchId):
        with open(self.path / "all.txt", "a") as file:
            file.writelines(f"{value}\\n" for message in messages for value in message.values)


reports["Appender"] = examine_writer(Appender)
reports["Appender"]
''')
md('''
**What just happened?** Tasks leave nothing, and the commit is short; that is not enough. Between your commit and Spark's own note of it the driver can
die. Then the same batch comes again, with the same number, and is appended again. In notebook 08 the remedy was called *idempotent*.

## Exercise 4: mend it

<details><summary>Hint</summary>A file for each batch of each query: <code>messages[0].query</code> and
<code>batchId</code>. Write a draft, and <code>replace</code> moves it into its place in one step.</details>
''')
code('''
answer = None  # Your code here: class Mended(Appender): ...
''')
solution('''
# Solution
class Mended(Appender):
    def commit(self, messages, batchId):
        draft = self.path / f".draft-{messages[0].query}"
        draft.write_text("".join(f"{value}\\n" for message in messages for value in message.values))
        draft.replace(self.path / f"{messages[0].query}-{batchId}.txt")


solution = Mended
''')
code('''
check_11(answer or solution, NumberWriter, examine_writer)
''')
md('''
## Mistake 5: the direct sink

**Predict:** this one *is* idempotent: query, batch and task are in the file's name. What is left to break?
''')
broken('''
class Direct(NumberWriter):
    def write(self, iterator):
        query, batch = task_property("sql.streaming.queryId"), task_property("streaming.sql.batchId")
        file = self.path / f"{query}-{batch}-{this_task().partitionId()}.txt"
        file.write_text("".join(f"{row.value}\\n" for row in iterator))
        return Values(query, [])


reports["Direct"] = examine_writer(Direct)
reports["Direct"]
''')
md('''
**What just happened?** One task died, others were done: readers saw rows of a batch that had failed. They are replaced later, when the batch is repeated; but
whoever read in between has counted rows that never were. And if it is repeated with fewer tasks, some files stay for ever.

## Exercise 5: mend it

<details><summary>Hint</summary>Do nothing in <code>write</code> that a reader can see: hand the rows to the commit. One sink of this
notebook does so.</details>
''')
code('''
answer = None  # Your code here: class Mended(Direct): ...
''')
solution('''
# Solution
class Mended(Direct):
    write = Appender.write

    def commit(self, messages, batchId):
        draft = self.path / f".draft-{messages[0].query}"
        draft.write_text("".join(f"{value}\\n" for message in messages for value in message.values))
        draft.replace(self.path / f"{messages[0].query}-{batchId}.txt")


solution = Mended
''')
code('''
check_11(answer or solution, NumberWriter, examine_writer)
''')
md('''
## Your own source

Now the mailbox of notebook 09, in a shorter form; put your own there. One letter is one row, and its number is its text. Three of the
promises are new here, and the last one kills: the query runs in drivers of its own, each of which gets a `kill -9`.
''')
code('''
class Inbox:
    def __init__(self, context):
        self.folder, self.last = Path(context.options.letters), ""

    def fill(self, buffer):
        for letter in sorted(self.folder.glob("*.txt")):
            if letter.name > self.last:
                buffer.add(letter.read_text())
                self.last = letter.name
''')
code('''
from tutorial_pkg.builder import REQUIRED, not_empty

builder = SourceBuilder.stream("inbox", "text STRING", create=Inbox).fill(Inbox.fill).snapshot(lambda inbox: inbox.last)
builder = builder.restore(lambda inbox, snapshots: setattr(inbox, "last", snapshots[0]))
inbox = builder.option("letters", not_empty, REQUIRED, "the folder of letters").build()


def describe_inbox(folder):
    def feed(numbers):
        for number in numbers:
            (folder / ".draft").write_text(str(number))
            (folder / ".draft").rename(folder / f"{number:09}.txt")
    return StreamSource(inbox, {"path": folder / "log", "letters": folder}, number="text", feed=feed)
''')
md('''
**Predict:** `restart`, `unknown_option`, `nothing_left`, `killed`: does it keep them all, without a line of yours about any of them?
''')
code('''
reports["yours"] = examine_source(describe_inbox, spark, only=["restart", "unknown_option", "nothing_left", "killed"])
print(reports["yours"])
''')
md('''
**What just happened?** What the builder promises, your source keeps: the log, the snapshots and the offsets are its business. Here are
all examinations of this notebook, in words and in a picture; what has no mark was not tried.
''')
code('''
for name, report in reports.items():
    print(f"{name:10} breaks", ", ".join(report.broken) or "nothing")
''')
code('''
import matplotlib.pyplot as plt

names = list(dict.fromkeys(verdict.name for report in reports.values() for verdict in report.verdicts))
figure, axes = plt.subplots(figsize=(9, 3), layout="constrained")
for row, report in enumerate(reports.values()):
    for verdict in report.verdicts:
        look = {"size": 16, "color": "tab:green" if verdict.mark == "✓" else "tab:red"}
        _ = axes.text(names.index(verdict.name), row, verdict.mark, ha="center", va="center", **look)
_ = axes.set(xlim=(-0.5, len(names) - 0.5), ylim=(len(reports) - 0.5, -0.5))
_ = axes.set_yticks(range(len(reports)), reports)
_ = axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
''',"nbval-ignore-output")
md('''
## What others promise

The same kit has examined Spark's own formats, this package's, and a well-known collection from PyPI. `make conformance` makes the table
again; the reasons stand below it in [docs/conformance.md](../docs/conformance.md).
''')
broken('''
from IPython.display import Markdown

lines = Path("../docs/conformance.md").read_text().splitlines()
Markdown("\\n".join(line for line in lines if line.startswith(("|", "## "))).replace("## ", "\\n\\n### "))
''')
md('''
## What the kit cannot know

- What a **power failure** takes: `kill -9` leaves what was written to the system; only `fsync` brings it to the disk.
- **Loads** that it does not make, and weeks that it does not wait. It looks whether cost grows linearly up to 20,000 rows, no further.
- **Chance**: a promise that held in this trial may break in the next one. `TUTORIAL_PKG_KILLS=50` tries more often.
- What is **not claimed**: it asks nobody to promise what they do not want. But it asks you to say so, with a reason.

## What you learned

- A promise that nobody tries is a wish. Describing a connector takes ten lines; after that anybody can try it.
- The five classics: position in `self`; more than `end`; deleting in `read`; a commit that is not idempotent; publishing in a task.
- The report names the promise, what was seen and what to do. From a shell: `python -m tutorial_pkg examine my_module:my_source`.

The kit: [`tutorial_pkg/testing/`](../tutorial_pkg/testing/source_promises.py), a function for each promise; what the
broken connectors begin with: [`tutorial_pkg/workbook/number_files.py`](../tutorial_pkg/workbook/number_files.py).

**Next:** [12 real systems](12_real_systems.ipynb). And examine a connector of your own, or one that you use at work:
`help(tutorial_pkg.testing)` has two descriptions that run.
''')
code('''
spark.stop()
''')
nb=new_notebook(cells=cells, metadata={"kernelspec":{"display_name":"Python 3","language":"python","name":"python3"},"language_info":{"name":"python"}})
print(len(cells))
nbformat.write(nb, sys.argv[1])
