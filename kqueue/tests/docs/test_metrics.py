"""docs/metrics.md: its table is that of the code, and its commands run.

`python -m kqueue.tests.docs.test_metrics` writes the table.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path

from kqueue.telemetry.metrics import METRICS, Kind, Metric
from kqueue.tests.doc_pages import Page, run_line, serving
from kqueue.tests.source_tree import ROOT

PAGE = Page("docs/metrics.md")
BEGIN, END = "<!-- table of the metrics -->\n", "<!-- end of the table -->\n"


def line(metric: Metric) -> str:
    name = f"{metric.name}_total" if metric.kind is Kind.COUNTER else metric.name
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    kafka = f"`{metric.kafka}`" if metric.kafka else ""
    return f"| `{name}` | {metric.kind.value} | {labels} | {metric.meaning} | {kafka} |\n"


def table() -> str:
    rows = ["| metric | type | labels | meaning | the same of Kafka |\n", "|---|---|---|---|---|\n"]
    return "".join((*rows, *map(line, METRICS)))


def test_the_table_is_that_of_the_code() -> None:
    assert PAGE.text.partition(BEGIN)[2].partition(END)[0] == table()


def test_the_commands_start_a_broker_that_is_ready(tmp_path: Path) -> None:
    serve, *commands = PAGE.commands()
    asking = [line for line in commands if line.startswith("kqueue health")]
    address = f"127.0.0.1:{_free_port()}"  # as another broker may have the port that the page names
    assert "127.0.0.1:9404" in serve
    with serving(serve.replace("127.0.0.1:9404", address), tmp_path):
        answers = [run_line(f"{line} http://{address}", tmp_path) for line in asking]
    assert answers == ["ready\n", '{"ready": true, "reasons": []}\n']


def test_the_dashboard_and_the_alerts_are_written(tmp_path: Path) -> None:
    for line in PAGE.commands():
        if line.startswith("kqueue metrics"):
            run_line(line, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"kqueue-dashboard.json", "kqueue-alerts.yml"}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_names_are_those_of_prometheus() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"kqueue_[a-z_]+", metric.name)
        assert metric.meaning.endswith(".")
        assert not metric.name.endswith("_total"), "prometheus-client adds it"
    assert len({metric.name for metric in METRICS}) == len(METRICS)


if __name__ == "__main__":
    before, _, rest = PAGE.text.partition(BEGIN)
    (ROOT / PAGE.name).write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")
