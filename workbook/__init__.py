"""What the notebooks need besides `tutorial_pkg`: `from workbook import chart, watch, wait_until`.

Every lesson:

- `lesson`: set up an empty folder, stop everything at the end, show the outcome of a call
- `checks`: the exercises' checks; `solved` records what you have solved
- `plots`: charts, and live plots of queries
- `senders`: free ports; commands and Python workers to kill
- `inside`: frames of a log, the doctor, processes to kill

Some lessons:

- 05, 08 `explainers`: the watermark and the crash, to play with
- 07, 17 `network_to_log`, 10 `counting`: queries to kill, as scripts
- 13, 17 `drills`: the final tests of the capstone and of named senders
- 10, 14, 15, 16 `services`: PostgreSQL, NATS, Kafka's protocol and S3; `daemon` ends them
- 02, 03, 11 `number_files`: data sources from classes, the parts of the broken connectors
- 12 `weather`: a REST service
- 18 `broken_queries`; 19 `shop_orders`, and `cluster`
- 20, 21, 22 `batches`: streams cut into batches
- 20, 21 `trading`: trades
- 22 `shop`: orders with their payments and deliveries
- 13 `ledger`: the capstone's service

For the terminal: `__main__` (`python -m workbook`), `rerun` (run notebooks and store the
outputs).
"""

from tutorial_pkg.core.imports import lazy_names

_NAMES = {
    "batches": "post",
    "broken_queries": "order_stream scene",
    "checks": """
        check_00_1 check_01_1 check_01_2 check_02_1 check_03_1 check_04_1 check_04_2 check_05_1
        check_06_1 check_07_1 check_08_1 check_08_2 check_09_1 check_09_2 check_10_1 check_11_1
        check_11_2 check_11_3 check_12_1 check_12_2 check_13_1 check_13_2 check_13_3 check_13_4
        check_14_1 check_15_1 check_16_1 check_17_1 check_17_2 check_18_1 check_19_1 check_20_1
        check_21_1 check_22_1
        the_solution""",
    "cluster": "Cluster",
    "explainers": "crash_explainer watermark_explainer",
    "inside": "QueryProcess doctor frames newest_frame wait_until",
    "ledger": "append_once ask_until_reply entries start_ledger",
    "drills": "Drill LinesDrill",
    "lesson": "clear_desk leave_desk outcome",
    "plots": "BLUE GREEN ORANGE RED chart dashboard draw_arrivals draw_reports picture watch",
    "number_files": "NumberReader NumberWriter Slice Suspect Values sink_of source_of",
    "senders": "HOST free_ports wait_for_listener Command",
    "services": "Postgres start_kafka start_nats start_postgres start_s3",
    "shop": "open_shop",
    "shop_orders": "count_orders draw_orders read_orders",
    "trading": "OPENING SCHEMA Trade first_trades",
    "weather": "Weather draw_requests",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = list(_MODULES)
__getattr__ = lazy_names(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
