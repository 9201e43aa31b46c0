"""docs/metrics-names.md: its tables are those of the code.

`python -m kqueue.tests.docs.test_metrics_names` writes them.
"""

from __future__ import annotations

from kqueue.telemetry.foreign_names import FOREIGN_NAMES, ForeignName
from kqueue.telemetry.metrics import BY_NAME, METRICS, Kind
from kqueue.tests.doc_pages import Page
from kqueue.tests.source_tree import ROOT

PAGE = Page("docs/metrics-names.md")
NAMES = ("<!-- names of exporters -->\n", "<!-- end of the names -->\n")
MBEANS = ("<!-- mbeans -->\n", "<!-- end of the mbeans -->\n")


def own_name(name: str) -> str:
    return f"{name}_total" if BY_NAME[name].kind is Kind.COUNTER else name


def source_of(row: ForeignName) -> str:
    source = BY_NAME[row.source]
    rest = source.labels[len(row.where) :]
    where = "".join(f'{{{label}="{value}"}}' for label, value in zip(source.labels, row.where, strict=False))
    if len(row.labels) < len(rest):
        by = ", ".join(rest[: len(row.labels)])
        return f"`sum by ({by}) ({own_name(row.source)}{where})`"
    return f"`{own_name(row.source)}{where}`"


def names_table() -> str:
    rows = ["| exporter | metric | labels | of kqueue |\n", "|---|---|---|---|\n"]
    for exporter, names in FOREIGN_NAMES.items():
        for row in names:
            labels = ", ".join(f"`{label}`" for label in row.labels)
            rows.append(f"| {exporter} | `{row.name}` | {labels} | {source_of(row)} |\n")
    return "".join(rows)


def mbeans_table() -> str:
    rows = ["| of Kafka | of kqueue | labels |\n", "|---|---|---|\n"]
    for metric in sorted(METRICS, key=lambda metric: metric.kafka):
        if metric.kafka.startswith("kafka."):
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            rows.append(f"| `{metric.kafka}` | `{own_name(metric.name)}` | {labels} |\n")
    return "".join(rows)


def test_the_tables_are_those_of_the_code() -> None:
    for (begin, end), table in ((NAMES, names_table()), (MBEANS, mbeans_table())):
        assert PAGE.text.partition(begin)[2].partition(end)[0] == table


if __name__ == "__main__":
    text = PAGE.text
    for (begin, end), table in ((NAMES, names_table()), (MBEANS, mbeans_table())):
        before, _, rest = text.partition(begin)
        text = before + begin + table + end + rest.partition(end)[2]
    (ROOT / PAGE.name).write_text(text, encoding="utf-8")
