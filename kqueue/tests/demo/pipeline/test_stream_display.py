from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from kqueue.demo.pipeline import stream_display as module
from kqueue.demo.pipeline.stream_display import StreamDisplay, StreamStatus, moment, reasons_text
from kqueue.spark.jobs.delay_results import DelayProgress

REASONS = {"not JSON": 20, "late: told more than 2 hours after the event": 980}
FACTS = StreamStatus(
    1_365_944_700_000,
    120_000,
    336_777,
    18_000.0,
    9_000.0,
    DelayProgress(98_000, 1_365_937_200_000, 6200, 2080, REASONS),
)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def test_facts_stand_below_the_bars() -> None:
    out = io.StringIO()
    display = StreamDisplay(Console(file=out, force_terminal=True, width=100))
    with display, display.step("Finding delays"):
        display.show(FACTS)
    last = plain(out.getvalue()).splitlines()[-6:]
    for words, line in zip(
        (
            "Time in 2013 +2013-04-14 13:05 +done up to the watermark, 2013-04-14 11:00",
            "Events sent +120,000 +18,000/s, of 336,777",
            "Records read by Spark +98,000 +9,000/s",
            "Hours done +2,080 +6,200 of an airport",
            "In quarantine +1,000 +late 980, not JSON 20",
        ),
        last[-5:],
        strict=True,
    ):
        assert re.search(words, line), line
    assert all(len(line) <= 100 for line in last)


def test_explanations_are_cut_where_there_is_no_room() -> None:
    out = io.StringIO()
    display = StreamDisplay(Console(file=out, force_terminal=True, width=80))
    with display:
        display.show(FACTS._replace(seen=DelayProgress(quarantined={"x" * 200: 1})))
    last = plain(out.getvalue()).splitlines()
    assert "  Records read by Spark  " in "".join(last)
    assert re.search("In quarantine +1 +x+…", last[-1])
    assert all(len(line) <= 80 for line in last)


def test_without_a_terminal_a_line_comes_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    out, now_s = io.StringIO(), iter((10.0, 10.0, 12.0, 15.0, 15.0))
    monkeypatch.setattr(module, "monotonic_s", lambda: next(now_s))
    display = StreamDisplay(Console(file=out, force_terminal=False, width=60))
    for _ in range(3):
        display.show(FACTS)
    assert (
        out.getvalue().splitlines()
        == [
            (
                "2013-04-14 13:05: 120,000 events sent, 98,000 read (9,000/s), watermark 2013-04-14 11:00, 2,080 hours "
                "done, 1,000 in quarantine"
            )
        ]
        * 2
    )


def test_before_anything_is_known() -> None:
    facts = StreamStatus(None, 0, 0, 0.0, 0.0, DelayProgress())
    assert moment(None) == "–"
    assert facts.line().startswith("–: 0 events sent")
    assert [row[1] for row in facts.rows()] == ["–", "0", "0", "0", "0"]


def test_the_most_frequent_reasons_come_first() -> None:
    assert reasons_text({}) == ""
    assert reasons_text({"a": 1, "b": 5, "c": 2, "d": 3, "e": 1000, "f": 1}) == "e 1,000, b 5, d 3, c 2, others 2"


def test_zero_rate_names_the_reason_of_the_wait() -> None:
    before = FACTS._replace(seen=DelayProgress(), read_s=0.0, waited_s=42.4)
    assert "0 read (Spark plans its first batch, for 42 s)" in before.line()
    assert before.rows()[2][2] == "Spark plans its first batch, for 42 s"
    between = FACTS._replace(read_s=0.0, waited_s=7.0)
    assert "98,000 read (0/s, Spark works at a batch for 7 s)" in between.line()
    assert "98,000 read (0/s)" in between._replace(waited_s=1.0).line()
