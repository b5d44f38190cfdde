"""The results of all benchmarks as one Markdown page with plots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
from bench_latency import CONTESTANTS, LEAST, TO_FILE, TO_ROW
from bench_startup import AS_IT_COMES, FIRST_ROW, FROM_PYTHON, FROM_ZIP, START_SPARK
from matplotlib.figure import Figure
from measure import Result, Series, table

Results = dict[str, Result]

PROFILED = "2026-11-21"  # when what the text says of shares was found
CONFIRMED_BEFORE = (
    "A confirmation waits for the disk; until it did, it only waited for the log file. What that "
    "costs is not of this run: the package of before and today's in turns, A B A B, on 2026-11-22, "
    "on a machine whose disk alone took 0.15 to 0.7 ms a line. A sender after the other: 0.44 and "
    "0.49 ms a line before, 3.0 and 1.2 ms now. 100 senders at once, who share a sync: 0.72 and "
    "1.05 ms before, 1.24 and 0.70 now. A burst of 3 million, which nobody confirms line by line: "
    "3.1 and 2.9 s before, 3.2 and 1.7 s now."
)
OF_A_LINE = (
    "CPU time of a line in bursts of ten million, medians of twelve that came after 40 million "
    "lines (2026-11-23, beside much other work): JVM 183 ns (157 to 232), Python tasks 74 (cutting "
    "lines is 20), listener 78, sender 10. With these 345 ns two cores pass at most 5.8 million "
    "lines/s, less the batches' fixed costs. Tried in turns, without a difference: the JVM's Arrow "
    "without bounds checks (130 and 130 ns for ready batches), the JVM's own thresholds for its "
    "second compiler, and a log that is synced before the query asks for its end (it waits 125 ms "
    "for that in such a burst, 169 when synced before)."
)
BUSY = 0.05  # the share of CPU time of other programs from which a run is called disturbed
SLOW = 1.15  # times the best time of the same work
PERCENTILES = (50, 95, 99)
# Sections that have a place of their own on the page; any other comes as its table.
TOLD = (
    *("startup", "latency", "network_lines", "file_lines", "cpu_log", "limits", "peers"),
    "scaling",  # on a page of its own
)
UNLIMITED_SINK = "cpu_log, no byte limit"
OUR_NAMES = ("file_lines", "cpu_log")
OURS, THEIRS = "tab:blue", "tab:gray"


def write_report(results: Results, folder: Path) -> None:
    """Write `RESULTS.md` and its plots into `folder`."""
    plot_bursts(results, folder / "bursts.png")
    plot_latency(results, folder / "latency.png")
    plot_rates(results, folder / "rates.png")
    parts = [
        *heading(results),
        *targets(results),
        *single_lines(results["latency"]),
        *network(results["network_lines"]),
        *section(results["file_lines"], "rates.png"),
        *section(results["cpu_log"]),
        *section(results["startup"]),
        *(peers(results["peers"]) if "peers" in results else NO_PEERS),
        *(line for name in results if name not in TOLD for line in section(results[name])),
        *where_time_goes(results),
        *memory(results),
    ]
    (folder / "RESULTS.md").write_text("\n".join(parts) + "\n")


# ---- What was measured, where, and whether anybody disturbed it --------------------------------


def heading(results: Results) -> list[str]:
    return [
        "# Measured, side by side",
        "",
        "Written by `make bench` from `results/`. Each part can be measured again by itself, with "
        "`python benchmarks/run.py PART`, so each has its date. A model that predicts how "
        "`network_lines` scales is in [docs/scaling.md](../docs/scaling.md).",
        "",
        *_when_and_where(results),
        "",
        f"- {_disturbance(results)}",
        f"- {_evenness(results)}",
        "- Method: lines of 77 bytes; contestants take turns in one session (A B A B), after "
        f"rounds that do not count; {_passes(results)}; a ratio is the "
        "median over the pairs of neighbouring runs, and above 1 means faster.",
        BEFORE_030,
        "",
    ]


# Of the parts with an earlier date. To be removed when all have been measured again.
BEFORE_030 = (
    "- **Parts up to 2026-11-25 were measured with the code before 0.3.0.** On "
    "2026-11-29 both were compared on a slower machine (before / after, medians of 3 to 10 runs, "
    "above 1 means that 0.3.0 is faster): `network_lines` 1.02 to 1.07, `file_lines` 1.01 to 1.05, "
    "`postgres` 0.98 to 1.19, `kafka_py` 0.99 to 1.27, `nats` 0.96 to 1.18, `cpu_log` 0.86 (a "
    "plain Arrow sink beside it: 0.82 to 0.89). The parts with a later date are of 0.3.0."
)


def _when_and_where(results: Results) -> list[str]:
    parts = defaultdict(list)
    for name, result in results.items():
        parts[result.date, result.machine].append(name)
    rows = [f"| {date} | {machine} | {', '.join(of)} |" for (date, machine), of in parts.items()]
    return ["| date | machine and versions | parts |", "|---|---|---|", *rows]


def _passes(results: Results) -> str:
    """No two JVMs compile the same code alike, so that one pass says less than two."""
    once = [name for name, result in results.items() if len(result.probes) == 2]  # before, after
    return (
        "parts run twice, some time apart, in new processes, since no two JVMs compile the same "
        "code alike; medians over the runs of both"
        + (f" (once only: {', '.join(once)})" if once else "")
    )


def _disturbance(results: Results) -> str:
    others = {name: result.others for name, result in results.items()}
    disturbed = [f"{name} ({share:.0%})" for name, share in others.items() if share > BUSY]
    if not disturbed:
        return f"The machine was quiet: other programs took at most {max(others.values()):.1%}."
    return (
        f"**Disturbed:** other programs took more than {BUSY:.0%} of the CPU time in "
        f"{', '.join(disturbed)}; times are too long there, ratios less so."
    )


def _evenness(results: Results) -> str:
    """Whether the machine was as fast at all times: it may share its host with others."""
    probes = {name: max(result.probes) for name, result in results.items()}
    least = min(probe for result in results.values() for probe in result.probes)
    slow = [f"{name} ({most / least:.2f})" for name, most in probes.items() if most > SLOW * least]
    told = f"The same checksum took {least * 1000:.0f} to {max(probes.values()) * 1000:.0f} ms"
    if not slow:
        return f"{told} before and after the parts: the machine was evenly fast."
    return (
        f"{told} before and after the parts. **The machine was slower at times**, as it is when it "
        f"shares its host; times its best: {', '.join(slow)}."
    )


CLIENTS = (  # section, group, series, what is told of it, aim
    ("network_trust", "burst", "TLS", "`network_lines` over TLS, of plain TCP", 0.6),
    ("postgres", "Reading a table", "postgres, two tasks", "`postgres`, reading, of ADBC", 0.6),
    (
        "postgres",
        "Changes",
        "postgres, a stream's batch",
        "`postgres`, changes, of `pg_recvlogical`",
        0.6,
    ),
    (
        "postgres",
        "Appending, exactly once",
        "postgres, a stream's batch",
        "`postgres`, exactly once, of one COPY",
        0.52,
    ),
    ("brokers", "Kafka's protocol, reading", "kafka_py", "`kafka_py`, reading, of its client", 0.6),
    ("brokers", "Kafka's protocol, writing", "kafka_py", "`kafka_py`, writing, of its client", 0.6),
    ("brokers", "NATS, reading", "nats", "`nats`, reading, of its client", 0.6),
    ("brokers", "NATS, writing", "nats", "`nats`, writing, of its client", 0.6),
    ("lake", "Reading lines", "objects, in a bucket", "`objects`, reading, of `file_lines`", 0.5),
    ("lake", "Writing Parquet", "objects, in a bucket", "`objects`, writing, of `parquet`", 0.6),
    (
        "lake",
        "Appending a stream to Delta",
        "delta_py, a stream's batch",
        "`delta_py`, of its client with the same stream",
        0.8,
    ),
    (
        "lake",
        "Appending to Delta",
        "delta_py, a stream's batch",
        "`delta_py`, of its client with rows in memory",
        0.8,
    ),
)


def targets(results: Results) -> list[str]:
    told = [
        f"| {what} | ≥ {form.format(aim)} | {form.format(found)} | {_mark(found >= aim)} |"
        for what, aim, found, form in _at_least(results)
    ]
    told += [
        f"| {what} | ≤ {aim:.2f} | {found:.2f} | {_mark(found <= aim)} |"
        for what, aim, found in _at_most(results)
    ]
    return ["| | aim | measured | |", "|---|--:|--:|---|", *told, ""]


def _at_least(results: Results) -> list[tuple[str, float, float, str]]:
    network, files, sink = (results[n] for n in ("network_lines", "file_lines", "cpu_log"))
    burst, largest = (_largest_up_to(network, lines) for lines in (3_000_000, 10_000_000))
    rows = [
        (f"`network_lines`, lines/s of {burst.lines:,}", 2e6, burst.rate, "{:,.0f}"),
        (f"`network_lines`, lines/s of {largest.lines:,}", 4.5e6, largest.rate, "{:,.0f}"),
        *(
            (f"`file_lines` of `text`, {group}", 0.6, _ratio(files, group, "file_lines"), "{:.2f}")
            for group in ("batch", "streaming")
        ),
        *(
            (f"`cpu_log` of `csv`{setting}", 0.75, _ratio(sink, "sinks", name), "{:.2f}")
            for name, setting in (("cpu_log", ""), (UNLIMITED_SINK, ", no byte limit"))
        ),
    ]
    for section, group, name, what, aim in CLIENTS:
        if section in results:
            rows.append((what, aim, _ratio(results[section], group, name), "{:.2f}"))
    if "peers" in results:
        peer = results["peers"]
        ratio = _ratio(peer, peer.series[0].group, "network_lines")
        rows.append(("`network_lines` of Flink's socket stream", 1.3, ratio, "{:.2f}"))
    return rows


def _at_most(results: Results) -> list[tuple[str, float, float]]:
    """Times that are to be short, and times as times of the built-in way's."""
    line = results["latency"]
    first_row = results["startup"].find(FIRST_ROW, START_SPARK).median
    return [
        ("a line to its row, median, times `socket`", 1.0, _times(line, TO_ROW, 50)),
        ("a line to its row, 99th, times `socket`", 1.0, _times(line, TO_ROW, 99)),
        ("a line to `cpu_log`, median, times `socket` to `csv`", 1.3, _times(line, TO_FILE, 50)),
        ("start to first row, s", 4.5, first_row),
        *_growth_at_most(results["growth"].figures),
    ]


def _growth_at_most(found: dict[str, float]) -> list[tuple[str, float, float]]:
    beside = f"beside {found['files']:,.0f} files that are done"
    return [
        (f"`file_lines` {beside}: a look, s", 1.0, found["look"]),
        (f"… {beside}: the first look, s", 3.0, found["first"]),
        (f"… {beside}: growth noticed after, s", 5.0, found["noticed"]),
        (f"… {beside}: the reader's memory, MB", 250.0, found["memory"]),
        (f"… {beside}: an idle query, % of a core", 25.0, found["idle"]),
        (f"… {beside}: an offset, kB", 50.0, found["note"]),
    ]


def _times(latency: Result, group: str, percentile: int) -> float:
    """A percentile of ours as a multiple of the built-in one's; below 1 is faster."""
    ours, theirs = (latency.find(group, name).seconds for name in [*CONTESTANTS[group]][:2])
    return float(np.percentile(ours, percentile) / np.percentile(theirs, percentile))


def _mark(reached: bool) -> str:
    return "reached" if reached else "**not reached**"


def _ratio(result: Result, group: str, name: str) -> float:
    return result.ratio(result.find(group, name)) or 1.0


def _bursts(network: Result, name: str) -> list[Series]:
    return [s for s in network.series if s.group.startswith("burst") and s.name == name]


def _largest_up_to(network: Result, lines: int) -> Series:
    return [s for s in _bursts(network, "network_lines") if s.lines <= lines][-1]


# ---- Sections ----------------------------------------------------------------------------------


def section(result: Result, picture: str | None = None) -> list[str]:
    shown = [f"![{result.title.replace('`', '')}]({picture})", ""] if picture else []
    return [f"## {result.title}", "", *shown, *table(result), "", *result.notes, ""]


def network(result: Result) -> list[str]:
    return [
        *section(result, "bursts.png"),
        f"{_cut_off(result)} It has no log and no replay; `network_lines` writes every line to "
        "disk before Spark sees it.",
        "",
        CONFIRMED_BEFORE,
        "",
    ]


def _cut_off(result: Result) -> str:
    """Up to where the built-in source took part, and why no further."""
    measured = _bursts(result, "socket")
    lines, most = measured[-1].lines, _bursts(result, "network_lines")[-1].lines
    if lines == most:
        return "`socket` took part in all bursts."
    growth = measured[-1].median / measured[-2].median if len(measured) > 1 else 0
    times = measured[-1].lines / measured[-2].lines if len(measured) > 1 else 0
    return (
        f"`socket` took part up to {lines:,} lines, and was cut off there: its last step, "
        f"{times:.1f} times the lines, took {growth:.1f} times as long, and it grows with the "
        "square of a burst. There, its runs differ too much from each other for a ratio."
    )


def single_lines(result: Result) -> list[str]:
    return [
        f"## {result.title}",
        "",
        "![from send to row and to the published file, percentiles](latency.png)",
        "",
        "| milliseconds | " + " | ".join(f"{p}th" for p in PERCENTILES) + " | lines |",
        "|---|" + "--:|" * (len(PERCENTILES) + 1),
        *(line for group in CONTESTANTS for line in _percentiles(result, group)),
        "",
        "Each line is sent alone, at a random moment, to a query that waits.",
        "",
        _least_latency(result),
        "",
    ]


def _least_latency(result: Result) -> str:
    """What any source in Python pays, and what of ours is our own."""
    ours, builtin, least = (result.find(TO_ROW, name).median * 1000 for name in CONTESTANTS[TO_ROW])
    return (
        f"The lower bound: {LEAST} takes {least / builtin:.2f} times as long as `socket`, whose "
        "rows never leave the JVM. For each batch Spark asks a Python process for the offset and "
        "for the tasks, and has another one read. With its log, a sync and a receiver, "
        f"`network_lines` takes {ours / least:.2f} times as long as that."
    )


def _percentiles(result: Result, group: str) -> list[str]:
    told = [f"| **{group}** |" + " |" * (len(PERCENTILES) + 1)]
    for name in CONTESTANTS[group]:
        seconds = result.find(group, name).seconds
        values = np.percentile(seconds, PERCENTILES) * 1000
        cells = " | ".join(f"{value:.0f}" for value in values)
        told.append(f"| {name} | {cells} | {len(seconds)} |")
    return told


NO_PEERS = [
    "## Peers",
    "",
    "Not measured in this run: `python benchmarks/run.py --peers` adds Flink and Bytewax.",
    "",
]


def peers(result: Result) -> list[str]:
    return [
        *section(result),
        "| | durable log | replay | parallel | event time |",
        "|---|---|---|---|---|",
        "| `network_lines` | yes | from the log | slices of each port | option, vectorised |",
        "| Spark `socket` | no | no | one reader, split by rows | no |",
        "| Flink `socketTextStream` | no | no | no | by the job |",
        "| Bytewax, a source of a few lines | no | no | no | by the job |",
        "| `file_lines` | the files | by byte | splits a file | option, vectorised |",
        "| Spark `text` | the files | by whole file | splits a file | no |",
        "| Flink `FileSource`, lines | the files | by record | a task for each file | by the job |",
        "| Bytewax `FileSource` | the file | by byte | one worker for each file | by the job |",
        "",
    ]


def where_time_goes(results: Results) -> list[str]:
    return [
        *section(results["limits"]),
        "## Where the time goes",
        "",
        "In nanoseconds a line. These are steps measured by themselves; in a query they overlap in "
        "part, since sender, listener, tasks and JVM share the cores. Shares of time, and what is "
        "said of settings that were tried, are not of this run: they come from profiles (py-spy, "
        f"JFR) and runs in turns of {PROFILED}.",
        "",
        *_time_of_sources(results),
        *_time_of_the_sink(results["cpu_log"]),
        *_time_of_the_start(results["startup"]),
        "",
    ]


def _time_of_sources(results: Results) -> list[str]:
    ways = {s.name.partition(":")[0]: s for s in results["limits"].series}
    burst = _largest_up_to(results["network_lines"], 3_000_000)
    read, text = (results["file_lines"].find("batch", n) for n in ("file_lines", "text"))
    crossing = _nanos(ways["Arrow batches to rows"])
    return [
        f"- **`network_lines`**: {_nanos(burst)} in a burst of {burst.lines:,}. The same bytes "
        f"cross the loopback in {_nanos(ways['loopback'])} and are on disk in "
        f"{_nanos(ways['disk'])}; ready Arrow batches become Spark's rows in {crossing}. "
        f"{OF_A_LINE} A micro-batch costs 60 to 90 ms besides: planning, and files of the "
        "checkpoint, for each of which Hadoop's local file system starts a `chmod`; a burst of "
        "this size takes three.",
        f"- **`file_lines`**: {_nanos(read)}, and `text` {_nanos(text)}. Ready Arrow batches "
        f"alone take {crossing}: `text` never leaves the JVM, and that crossing is what a source "
        "in Python pays. In the JVM, two fifths of a task go into copying each line into a row, "
        "an eighth into metrics for each row; in Python, half of the time is the sending, with its "
        "waiting. To come closer, Spark would have to take Arrow columns without making rows of "
        "them. JVM and Python talk over Unix sockets (`spark.python.unix.domain.socket.enabled`): "
        "over TCP each task in a reused worker waits 40 ms for a delayed acknowledgement, which "
        "made one line's way to its row 1.3 to 1.5 times as long here, and the one to `cpu_log`'s "
        "file 1.5 times.",
    ]


def _time_of_the_sink(sink: Result) -> list[str]:
    names = ("cpu_log", "arrow_discard", "arrow_once", UNLIMITED_SINK)
    ours, discard, once, unlimited = (_nanos(sink.find("sinks", name)) for name in names)
    first = _nanos(sink.find("the first batch: new files", "cpu_log"))
    return [
        f"- **`cpu_log`**: {ours}. Handing rows to Python and throwing them away takes {discard}; "
        f"formatting and writing them once as well, {once}. The rest is the price of exactly "
        "once: two syncs of every byte (`csv` syncs nothing), a copy from the stage into the "
        f"files, and the removal of the stage. Where a batch makes new files, they are renamed "
        f"instead: {first}. Before each row, Spark asks how large the Arrow batch has become, "
        "which is a third of the JVM's time here; with "
        "`spark.sql.execution.arrow.maxBytesPerBatch` at 2147483647 it does not ask, and the sink "
        f"takes {unlimited}. That is not the default because it takes away a protection: 4,000 "
        "lines of 1 MiB then end a JVM of 2 GiB. Set it where lines are known to be short.",
    ]


def _time_of_the_start(startup: Result) -> list[str]:
    before, after = (startup.find(FIRST_ROW, n).median for n in (AS_IT_COMES, START_SPARK))
    zipped, python = (startup.find(FROM_PYTHON, n).median for n in (FROM_ZIP, START_SPARK))
    return [
        f"- **Start-up**: {after:.1f} s to the first row, {before - after:.1f} s less than Spark "
        "as it comes. Most of that is the archive of loaded classes; the settings between them "
        "(`bench_startup.py --all`) are too close to each other to tell apart here. The archive "
        "holds all but some 600 of 15,000 classes up to the first row, and none of 3,700 that the "
        "JVM makes for Scala's functions meanwhile. A quarter of what was left is gone: Spark "
        "registers SQL functions of its ML library, whose types it finds by reflection. That took "
        "1.0 to 1.1 s of CPU, where the JVM had used 3.4 s for its session; now they come with "
        "`import pyspark.ml`. "
        f"Of a source in Python, {python:.1f} s: {zipped - python:.1f} s less than with the "
        "PySpark of Spark's zip, which each of Spark's Python processes compiles anew. Each of "
        "them also imports this package, and of it only what it needs: in turns with a package "
        "that imported all its connectors at once, and did so before the JVM was started, on "
        "2026-11-23, 6.2 s instead of 7.6, and 5.1 instead of 5.6 where the rows are Spark's own.",
    ]


def _nanos(series: Series) -> str:
    return f"{series.median / series.lines * 1e9:.0f} ns"


def memory(results: Results) -> list[str]:
    rows = [
        f"| {phase} | " + " | ".join(f"{kinds.get(kind, 0):.0f}" for kind in KINDS) + " |"
        for name, result in results.items()
        if name not in ("startup", "limits", "scaling")
        for phase, kinds in result.memory.items()
    ]
    head = ["| peak, MiB | " + " | ".join(KINDS) + " |", "|---|" + "--:|" * len(KINDS)]
    return ["## Memory", "", *head, *rows]


KINDS = ("driver", "JVM", "Python workers")

# ---- Plots -------------------------------------------------------------------------------------


def plot_bursts(results: Results, path: Path) -> None:
    def draw(axes) -> None:
        for name, color in (("network_lines", OURS), ("socket", THEIRS)):
            series = _bursts(results["network_lines"], name)
            lines, medians = [s.lines for s in series], [s.median for s in series]
            axes.loglog(lines, medians, "o-", color=color, label=name)
        for peer, marker in zip(_socket_peers(results), "s^", strict=False):
            axes.loglog(peer.lines, peer.median, marker, color=THEIRS, label=peer.name)
        axes.set(xlabel="lines in a burst", ylabel="seconds", title="First byte to last row")
        axes.set_xticks(
            [10**4, 10**5, 10**6, 10**7], ["10,000", "100,000", "1 million", "10 million"]
        )
        axes.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))

    _figure(path, draw)


def _socket_peers(results: Results) -> list[Series]:
    """The sources of others that listen or connect, where peers were measured."""
    found = results["peers"].series if "peers" in results else []
    return [s for s in found if s.group.startswith("a burst") and s.name != "network_lines"]


def plot_latency(results: Results, path: Path) -> None:
    def draw(axes) -> None:
        for group, style in zip(CONTESTANTS, ("-", "--"), strict=True):
            for name, color in zip(CONTESTANTS[group], (OURS, THEIRS), strict=False):
                millis = np.sort(results["latency"].find(group, name).seconds) * 1000
                share = np.arange(1, len(millis) + 1) / len(millis)
                label = name if group == TO_FILE else f"{name} to row"
                axes.plot(millis, share, style, color=color, label=label)
        axes.set(xlabel="milliseconds from send", ylabel="share of lines", ylim=(0, 1))
        axes.set_xlim(left=0)
        axes.legend(fontsize="small")

    _figure(path, draw)


def plot_rates(results: Results, path: Path) -> None:
    found = [
        (f"{series.name} {series.group}" if name == "file_lines" else series.name, series)
        for name in ("file_lines", "cpu_log")
        for series in results[name].series
        if name == "file_lines" or series.group == "sinks"
    ]

    def draw(axes) -> None:
        colors = [OURS if s.name.startswith(OUR_NAMES) else THEIRS for _, s in found]
        rates = [series.rate / 1e6 for _, series in found]
        bars = axes.barh([label for label, _ in found], rates, color=colors)
        axes.bar_label(bars, fmt="%.2f", padding=3)
        axes.invert_yaxis()
        axes.set(xlabel="million lines per second", xlim=(0, 1.12 * max(rates)))

    _figure(path, draw)


def _figure(path: Path, draw: Callable) -> None:
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    draw(figure.subplots())
    figure.savefig(path, dpi=110)
