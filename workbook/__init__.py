"""What the notebooks need besides `tutorial_pkg`: `from workbook import chart, watch, wait_until`.

`_NAMES` below says which module has what. `network_to_log` and `counting` are queries to kill, as
scripts. `solved` records solved exercises. For the terminal: `python -m workbook`, and `rerun` (run
notebooks and store the outputs).
"""

from tutorial_pkg.core.lazy import lazy_names

_NAMES = {
    "batches": "post",
    "broken_queries": "order_stream scene",
    "checks": """
        check_00_1 check_01_1 check_01_2 check_02_1 check_03_1 check_04_1
        check_04_2 check_05_1 check_05_2 check_06_1 check_06_2 check_07_1 check_07_2
        check_08_1 check_08_2 check_09_1 check_09_2 check_10_1 check_10_2 check_11_1
        check_11_2 check_11_3 check_12_1 check_12_2 check_12_3 check_13_1 check_13_2
        check_13_3 check_13_4 check_14_1 check_15_1 check_16_1 check_16_2 check_17_1 check_17_2
        check_18_1 check_18_2 check_19_1 check_20_1 check_21_1 check_22_1
        the_solution""",
    "cluster": "Cluster",
    "explainers": "crash_explainer watermark_explainer",
    "inside": "QueryProcess doctor frames newest_frame wait_until",
    "ledger": "append_once ask_until_reply entries start_ledger",
    "drills": "Drill LinesDrill",
    "lesson": "clear_desk leave_desk outcome",
    "plots": "BLUE GREEN ORANGE RED chart dashboard draw_arrivals picture watch",
    "number_files": "NumberReader NumberWriter Slice Suspect Values draw_reports sink_of source_of",
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
