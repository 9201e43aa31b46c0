from __future__ import annotations

from pathlib import Path

from kqueue.demo.pipeline import pipeline_demo


def test_last_line_of_sparks_log_is_found(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_bytes(b"WARNING: this\n  no bash here \xff\n\tat some.place\n\n")
    assert pipeline_demo._last_words(log) == "no bash here \N{REPLACEMENT CHARACTER}"
    log.write_bytes(b"")
    assert pipeline_demo._last_words(log) == ""


def test_a_rate_is_that_of_the_last_seconds() -> None:
    times = iter((0.0, 1.0, 3.0, 10.0))
    rate = pipeline_demo.Rate(lambda: next(times))
    assert [rate.of(count) for count in (0, 10, 60, 60)] == [0.0, 10.0, 20.0, 0.0]
