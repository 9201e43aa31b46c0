"""The audit report as one self-contained HTML page with embedded charts. No pyspark."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from pathlib import Path

from kqueue.spark.jobs.audit.charts import Chart, draw
from kqueue.spark.jobs.audit.formatting import age_text, findings, offsets_text, plain, time_text
from kqueue.spark.jobs.audit.report import AuditReport

PAGE = "report.html"
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #262626; margin: 2rem auto; max-width: 90rem; padding: 0 1rem }
h1 { margin-bottom: 0; overflow-wrap: anywhere } h2 { margin-top: 2.5rem } p, li { max-width: 60rem }
.when { color: #6b6b6b } .wide { overflow: auto; max-height: 44rem }
table { border-collapse: separate; border-spacing: 0; font-size: 14px; font-variant-numeric: tabular-nums }
th, td { padding: .15rem .45rem; text-align: right; white-space: nowrap; vertical-align: top }
th { border-bottom: 2px solid #8c8c8c; position: sticky; top: 0; background: white }
td { border-bottom: 1px solid #e6e6e6 }
.name { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 6rem }
.bad { color: #b03a00; font-weight: bold }
img { max-width: 100%; height: auto } figure { margin: 2rem 0 } figcaption { color: #6b6b6b }
@media print { .wide { overflow: visible; max-height: none } }
"""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_report(report: AuditReport, folder: Path) -> Path:
    """Write report.html and the charts to a folder; return the page's path.

    Creates the folder; replaces existing files. Raises: ExtraNeeded: matplotlib is missing.
    OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pictures = draw(report, folder)
    page = folder / PAGE
    fresh = folder / f".{PAGE}.new"
    fresh.write_text(_page(report, folder, pictures), encoding="utf-8")
    fresh.replace(page)
    return page


def _page(report: AuditReport, folder: Path, pictures: Sequence[Chart]) -> str:
    said = "".join(f"<li>{html.escape(line)}</li>" for line in findings(report))
    unknown = f"<p>Lag is not known: {html.escape(report.lag_unknown)}.</p>" if report.lag_unknown else ""
    unknown += f"<p>{html.escape(report.note)}</p>" if report.note else ""
    shown = "".join(_figure(one, (folder / one.file).read_bytes()) for one in pictures)
    tables = _records(report) + _gaps(report) + _shapes(report) + _lags(report)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta '
        f'http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>Audit</title><style>{STYLE}</style></head><body>\n"
        f'<h1>Audit of {html.escape(report.source)}</h1><p class="when">{time_text(report.taken_ms)} UTC</p>\n'
        f"<ul>{said}</ul>{unknown}\n{shown}\n{tables}</body></html>\n"
    )


def _figure(one: Chart, data: bytes) -> str:
    source = base64.b64encode(data).decode()
    text = html.escape(one.text)
    image = f'<img alt="{html.escape(one.title)}" src="data:image/png;base64,{source}">'
    return f"<figure>{image}<figcaption>{text}</figcaption></figure>\n"


def _table(
    title: str,
    text: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str | int]],
    *,
    names: int,
    bad: Sequence[int] = (),
) -> str:
    """Return a table. names: leading columns that are names. bad: columns that should be zero."""
    lines = []
    for row in rows:
        cells = []
        for number, cell in enumerate(row):
            kind = ' class="name"' if number < names else ' class="bad"' if number in bad and cell else ""
            cells.append(f"<td{kind}>{html.escape(f'{cell:,}' if isinstance(cell, int) else cell)}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>\n")
    if not lines:
        return ""
    titles = "".join(
        f"<th{' class=name' if number < names else ''}>{html.escape(name)}</th>" for number, name in enumerate(head)
    )
    note = f"<p>{html.escape(text)}</p>" if text else ""
    table = f"<table><tr>{titles}</tr>\n{''.join(lines)}</table>"
    return f'<h2>{html.escape(title)}</h2>{note}<div class="wide">{table}</div>\n'


def _records(report: AuditReport) -> str:
    head = (
        "topic", "policy", "partition", "start", "end", "records", "deleted", "markers", "compacted", "missing",
        "repeated", "aborted", "open",
    )  # fmt: skip
    text = (
        "Each offset up to the end is counted once: deleted ones lie before the log start; markers end "
        "transactions; compaction took some; "
        "nothing explains the missing ones. Repeated: key, value, headers and time are those of an earlier "
        "record of the partition."
    )
    rows = [
        (
            row.topic, row.policy or "-", str(row.partition), row.start, row.end, row.records, row.deleted,
            row.markers, row.compacted, row.missing, row.repeated,
            "-" if row.aborted is None else row.aborted, "-" if row.open is None else row.open,
        )
        for row in report.partitions
    ]  # fmt: skip
    return _table("Records", text, head, rows, names=2, bad=(9, 10))


def _gaps(report: AuditReport) -> str:
    rows = [
        (
            row.topic,
            str(row.partition),
            offsets_text(gap.first, gap.end),
            gap.end - gap.first,
            gap.why,
            row.gap_count if not number else "",
        )
        for row in report.partitions
        for number, gap in enumerate(row.gaps)
    ]
    head = ("topic", "partition", "offsets", "how many", "why", "gaps in all")
    return _table("Gaps", "The first of each partition.", head, rows, names=1)


def _shapes(report: AuditReport) -> str:
    head = (
        "topic", "partition", "bytes", "largest", "at offset", "keys", "no key", "no value", "no time",
        "late", "by at most", "from", "to",
    )  # fmt: skip
    rows = [
        (
            row.topic, str(row.partition), row.bytes, row.largest, row.largest_offset or 0,
            f"{'~' if row.keys_are_estimated else ''}{row.keys:,}",
            row.keyless, row.tombstones, row.timeless, row.backward, age_text(row.backward_ms) if row.backward else "-",
            time_text(row.first_ms), time_text(row.last_ms),
        )
        for row in report.partitions
        if row.records
    ]  # fmt: skip
    text = (
        "Bytes of keys and values. Late: records whose time lies before that of the one before them. Times are in UTC."
    )
    return _table("Contents", text, head, rows, names=1)


def _lags(report: AuditReport) -> str:
    head = ("group", "topic", "partition", "committed", "end", "lag", "oldest unread", "waits for", "deleted unread")
    rows = [
        (
            plain(lag.group), lag.topic, str(lag.partition), lag.committed, lag.end, lag.lag, time_text(lag.oldest_ms),
            age_text(lag.age_ms(report.taken_ms)), lag.deleted,
        )
        for lag in report.lags
    ]  # fmt: skip
    return _table("Consumer groups", "Lag: offsets that are not committed.", head, rows, names=2, bad=(8,))
