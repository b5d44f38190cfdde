"""The checks of notebook 20."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.unit.workbook.answers import changed, tried
from workbook.checks import check_20_1, check_20_2

SELECT = "SELECT ticker, sector FROM companies"


def asked(batch: Any, connection: Any) -> dict[str, str]:
    keys = batch["ticker"].unique().to_pylist()
    marks = ", ".join("?" * len(keys))
    return dict(connection.execute(f"{SELECT} WHERE ticker IN ({marks})", keys))


def with_sector(batch: Any, connection: Any) -> Any:
    tickers, sector_of = batch["ticker"].to_pylist(), asked(batch, connection)
    sectors = [sector_of.get(ticker) for ticker in tickers]
    known = [ticker in sector_of for ticker in tickers]
    batch = batch.append_column("sector", pa.array(sectors, pa.string()))
    return batch.append_column("known", pa.array(known, pa.bool_()))


def in_any_letters(batch: Any, connection: Any) -> dict[str, str]:
    keys = batch["ticker"].unique().to_pylist()
    alike = " OR ".join(["ticker LIKE ?"] * len(keys)) or "false"
    found = connection.execute(f"{SELECT} WHERE {alike}", keys)
    return {ticker.upper(): sector for ticker, sector in found}


looking_up = partial(changed, with_sector)


def asking(question: str) -> Any:
    return looking_up(("asked(batch, connection)", f"dict(connection.execute({question!r}))"))


def one_by_one(batch: Any, connection: Any) -> dict[str, str]:
    tickers = batch["ticker"].to_pylist()
    answers = [connection.execute(f"{SELECT} WHERE ticker = ?", [one]) for one in tickers]
    return dict(row for rows in answers for row in rows)


def one_or_another(batch: Any, connection: Any) -> dict[str, str]:
    tickers = batch["ticker"].to_pylist()
    where = " OR ".join("ticker = ?" for _ in tickers)
    return dict(connection.execute(f"{SELECT} WHERE {where}", tickers))


def pasted(batch: Any, connection: Any) -> dict[str, str]:
    keys = ", ".join(f"'{ticker}'" for ticker in batch["ticker"].to_pylist())
    return dict(connection.execute(f"{SELECT} WHERE ticker IN ({keys})"))


def quoted(batch: Any, connection: Any) -> dict[str, str]:
    """SQLite takes what is in double quotes for a text if it is no column."""
    keys = ", ".join(map(repr, batch["ticker"].to_pylist()))
    return dict(connection.execute(f"{SELECT} WHERE ticker IN ({keys})"))


def with_one_mark(batch: Any, connection: Any) -> dict[str, str]:
    keys = batch["ticker"].unique().to_pylist()
    return dict(connection.execute(f"{SELECT} WHERE ticker IN (?)", keys))


def only_known(batch: Any, connection: Any) -> Any:
    found = with_sector(batch, connection)
    return found.filter(found["known"])


def kept(batch: Any, connection: Any, sector_of: dict[str, str] = {}) -> Any:  # noqa: B006
    for ticker, sector in asked(batch, connection).items():
        sector_of.setdefault(ticker, sector)
    return changed(with_sector, ("asked(batch, connection)", "connection"))(batch, sector_of)


def with_columns_of_trades(batch: Any, connection: Any) -> Any:
    found = with_sector(batch, connection)
    return pa.record_batch({name: found[name] for name in ("ticker", "price", "sector", "known")})


def first_column(batch: Any, connection: Any) -> Any:
    found = with_sector(batch.rename_columns(["ticker", "other"]), connection)
    return found.rename_columns([*batch.schema.names, "sector", "known"])


def rows_only(batch: Any, connection: Any) -> Any:
    return with_sector(batch, connection) if batch.num_rows else batch


def by_dict(batch: Any, connection: Any) -> Any:
    found = with_sector(batch, connection).to_pydict()
    return pa.record_batch({**found, "sector": pa.array(found["sector"], pa.string())})


def by_json(batch: Any, connection: Any) -> Any:
    question = f"{SELECT} WHERE ticker IN (SELECT value FROM json_each(?))"
    keys = json.dumps(batch["ticker"].to_pylist())
    sector_of = dict(connection.execute(question, [keys]))
    return changed(with_sector, ("asked(batch, connection)", "connection"))(batch, sector_of)


def in_arrow(batch: Any, connection: Any) -> Any:
    found = asked(batch, connection)
    places = pc.index_in(batch["ticker"], value_set=pa.array(list(found), pa.string()))
    sectors = pa.array(list(found.values()), pa.string()).take(places)
    arrays = [*batch.columns, sectors, pc.is_valid(places)]
    return pa.RecordBatch.from_arrays(arrays, [*batch.schema.names, "sector", "known"])


NOT_NULL = "ticker in sector_of and sector_of[ticker] is not None for"
test_20_1 = tried(
    check_20_1,
    (with_sector, "✓ One question for a batch"),
    (asked, "must return a pyarrow.RecordBatch, yours is a dict"),
    (lambda batch, connection: 1 / 0, "raised ZeroDivisionError: division by zero."),
    (lambda batch, connection: batch, "ticker, price, sector, known are wanted"),
    (looking_up(("ticker in sector_of for", NOT_NULL)), "has LAMP, whose sector is null"),
    (looking_up((", pa.string()", "")), "also in a batch of unknown tickers, not null, bool"),
    (looking_up(("asked(", "one_by_one(")), "statements for two batches"),
    (asking(SELECT), "It read the whole table"),
    (asking(f"{SELECT} WHERE ticker IS NOT NULL"), "It read the whole table"),
    (looking_up((".get(ticker)", "[ticker]")), "raised KeyError: 'GONE'. Use `.get`"),
    (looking_up(("asked(", "in_any_letters(")), "`gone` is another ticker than `GONE`"),
    (only_known, "rows in their order (5 came out)"),
    (looking_up(("asked(", "pasted(")), "Use one `?` for each ticker"),
    (looking_up(("asked(", "quoted(")), "without pasting their text"),
    (looking_up(("asked(", "with_one_mark(")), "5 supplied. Use one `?` for each ticker"),
    (looking_up((".get(ticker)", ".get(ticker, '')")), "The sectors must be"),
    (kept, "The table has changed, and the answer is old"),
    (looking_up(("batch = batch.app", "connection.close(); batch = batch.app")), "Leave the conn"),
    (with_columns_of_trades, "The next batch may have other columns"),
    (first_column, "look up the column `ticker`"),
    (
        looking_up(("asked(", "one_or_another(")),
        "For a batch without rows it raised OperationalError: incomplete input.",
    ),
    (
        looking_up(("[sector_of.get(ticker) for ticker in tickers]", "list(sector_of.values())")),
        "Not every ticker has a row in the table: go by the ticker.",
    ),
    (rows_only, "A batch without rows needs the same two columns"),
    (looking_up(("in sector_of for", "in sector_of or None for")), "does not have GONE"),
    (by_dict, "A column of the batch has another type now"),
    (
        looking_up(
            ("[ticker in", "[str(ticker in"),
            ("sector_of for", "sector_of) for"),
            (", pa.bool_()", ""),
        ),
        "not string, string",
    ),
    (lambda batch, connection: pa.Table.from_batches([with_sector(batch, connection)]), "a Table"),
    (by_json, "✓ One question"),
    (in_arrow, "✓ One question"),
)


def unpaid(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    paid = {payment.order: payment.paid for payment in payments}
    return [
        order.id
        for order in orders
        if order.time + within < watermark
        and not (order.id in paid and order.time <= paid[order.id] <= order.time + within)
    ]


deciding = partial(changed, unpaid)


def at_once(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    return [order.id for order in orders if order.id not in {p.order for p in payments}]


def removing(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    late = watermark + timedelta(days=9)
    in_time = {order.id for order in orders} - {*unpaid(orders, payments, within, late)}
    for order in orders:
        if order.id in in_time:
            orders.remove(order)
    return unpaid(orders, [], within, watermark)


def by_seconds(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    paid = {payment.order: payment.paid for payment in payments}
    in_time = {o.id for o in orders if o.id in paid and (paid[o.id] - o.time).seconds <= 10}
    return [o.id for o in orders if o.time + within < watermark and o.id not in in_time]


def by_whole_seconds(orders: Any, payments: Any, *more: Any) -> list[int]:
    return by_seconds(orders, [one for one in payments if not one.paid.microsecond], *more)


def striking_off(orders: Any, payments: Any, within: Any, watermark: Any) -> Any:
    times = {order.id: order.time for order in orders}
    for payment in payments:
        if timedelta(0) <= payment.paid - times[payment.order] <= within:
            del times[payment.order]
    return (order for order, time in times.items() if watermark - time > within)


NOT_PAID = "and not (order.id in paid and order.time <= paid[order.id] <= order.time + within)"
test_20_2 = tried(
    check_20_2,
    (unpaid, "✓ Not a moment earlier"),
    (at_once, "may still come for each"),
    (deciding(("order.time + within < watermark", "order.time < watermark")), "may still come"),
    (deciding((NOT_PAID, "")), "Order 0 was paid."),
    (deciding((NOT_PAID, "and order.id not in paid")), "paid later than 10 seconds"),
    (deciding(("] <= order.time", "] < order.time")), "is within 10 seconds"),
    (deciding(("within < watermark", "within <= watermark")), "with the watermark *at* 11"),
    (deciding(("order.time <= paid", "paid")), "an earlier payment cannot belong"),
    (deciding(("order.time <= paid", "order.time < paid")), "in the same second as the order"),
    (lambda o, p, within, mark: unpaid(o, p, timedelta(seconds=10), mark), "3 seconds here"),
    (lambda orders, payments, within, watermark: orders[9], "raised IndexError"),
    (deciding(("order.id\n", "orders.index(order)\n")), "yours is [2, 3]"),
    (lambda orders, payments, within, watermark: None, "a list, not None. Is there a `return`?"),
    (removing, "Orders 2 and 3 were paid"),
    (by_seconds, "Order 0 was paid later than"),
    (by_whole_seconds, "`.seconds` has no days"),
    (deciding(("order.id\n", "order\n")), "The orders' ids are wanted, such as 3, not Order("),
    (
        deciding(
            (NOT_PAID, "and order.id not in paid"),
            ("paid = {", "paid = {p.order for p in payments if p.paid <= watermark} or {"),
        ),
        "paid later than 10 seconds",
    ),
    (striking_off, "✓ Not a moment earlier"),
    (lambda *asked: {*unpaid(*asked)}, "✓ Not a moment earlier"),
)
