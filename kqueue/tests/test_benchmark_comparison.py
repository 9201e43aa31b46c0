"""Tests of `benchmarks --against` and `--only growth`: arithmetic, reasons of what is skipped,
and tables. How fast something is, no test asserts.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import against, peers
from benchmarks.comparison import ComparedRow, Comparison, Measure, Ratio, figures_table, ratios_table
from benchmarks.growth import Curve, Growth, Line, replaced, rows
from benchmarks.options import parse
from benchmarks.peers import Missing
from benchmarks.profiles import OTHER, summarize
from benchmarks.results import Conditions
from compat_tests.kafka import jvm
from compat_tests.languages.toolchains import DownloadFailed

OURS, THEIRS = "kqueue", "Kafka"
RATE, COST = Measure("requests/s", True), Measure("CPU µs", False)


def comparison() -> Comparison:
    """Return three rounds of one load, and a load that only ours ran."""
    result = Comparison("2026-01-02 03:04", "kqueue in pure Python", 3, Conditions(2, "3.11.0", "Linux", 0.5, 0.7),
                        {OURS: [THEIRS, "kfake"]}, [OURS, THEIRS])  # fmt: skip
    for rate, cost in ((10.0, 5.0), (12.0, 4.0), (9.0, 6.0)):
        result.add(OURS, "one record", [RATE, COST], [rate, cost])
        result.add(THEIRS, "one record", [RATE, COST], [10.0, 2.0])
    result.add(OURS, "start", [Measure("s", False)], [0.5])
    return result


def test_ratio_above_one_says_that_ours_is_better_for_rates_and_for_costs() -> None:
    rate = ComparedRow("load", "requests/s", True, {OURS: [20.0], THEIRS: [10.0]})
    cost = ComparedRow("load", "CPU µs", False, {OURS: [5.0], THEIRS: [10.0]})
    assert rate.ratio(OURS, THEIRS) == cost.ratio(OURS, THEIRS) == Ratio(2, 2, 2)


def test_ratio_is_taken_round_by_round_and_its_spread_is_that_of_the_rounds() -> None:
    rate, cost = comparison().rows[:2]
    assert rate.ratio(OURS, THEIRS) == Ratio(1.0, 0.9, 1.2)
    assert cost.ratio(OURS, THEIRS) == Ratio(0.4, 2 / 6, 0.5)
    assert str(cost.ratio(OURS, THEIRS)) == "0.40 (0.33-0.50)"


def test_broker_that_did_not_run_has_no_ratio_and_no_column() -> None:
    result = comparison()
    assert list(result.pairs()) == [(OURS, THEIRS)]
    assert result.rows[0].ratio(OURS, "kfake") is None


def test_failed_load_is_left_out_with_its_reason() -> None:
    result = comparison()
    result.fail(THEIRS, "one record", "it closed the connection")
    assert result.failed == {"Kafka: one record": "it closed the connection"}
    assert [list(row.samples) for row in result.rows] == [[OURS], [OURS], [OURS]]


def test_tables_have_medians_and_ratios_and_ratios_below_one_are_bold() -> None:
    assert figures_table(comparison()).splitlines() == [
        "|  |  | kqueue | Kafka |",
        "|---|---|---|---|",
        "| one record | requests/s | 10 | 10 |",
        "|  | CPU µs | 5 | 2 |",
        "| start | s | 0.5 |  |",
    ]
    assert ratios_table(comparison()).splitlines()[2:] == [
        "| one record | requests/s | 1.00 (0.90-1.20) |",
        "|  | CPU µs | **0.40 (0.33-0.50)** |",
    ]


def test_kept_figures_are_read_back(tmp_path: Path) -> None:
    file = tmp_path / "kept" / "against.json"
    comparison().save(file)
    assert Comparison.load(file) == comparison()


def test_peers_that_can_not_be_run_are_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jvm, "missing", lambda: "there is no Java")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    peers.kfake_program.cache_clear()
    result = comparison()
    assert list(against.available([peers.KAFKA, peers.KFAKE], peers.columns, result, Console(width=200))) == []
    assert result.skipped == {"kafka": "there is no Java", "kfake": "there is no Go (no go on the path)"}
    assert "kafka: skipped, because there is no Java\n" in capsys.readouterr().out


def test_modules_of_kfake_that_can_not_be_downloaded_are_a_reason_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise DownloadFailed("Go's modules can't be downloaded: no network")

    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(peers, "download", refused)
    peers.kfake_program.cache_clear()
    with pytest.raises(Missing, match="no network"):
        peers.columns(peers.KFAKE)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--against", "rabbit"], "rabbit: choose from kafka, kfake"),
        (["--against", "kafka", "--only", "log"], "--against compares broker and cluster"),
        (["--compiled"], "--compiled is for --against"),
        (["--against", "kafka", "--only", "cluster", "--compiled"], "--compiled is for --against"),
        (["--keep"], "--keep is for"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(arguments, None)
    assert reason in capsys.readouterr().err


def test_every_broker_of_a_ratio_is_one_that_can_be_started() -> None:
    compared = {*peers.COMPARED, *(theirs for several in peers.COMPARED.values() for theirs in several)}
    started = {column.name for column in (*peers.OURS, *peers.COMPILED)}
    assert compared == started | {peers.KAFKA_NAME, peers.IN_MEMORY, peers.ON_DISK, peers.SYNCED}


def grown() -> Growth:
    """Return a curve that grows too far, and one that only has a limit."""
    lines = [
        Line("Produce", "CPU µs", growth_max=1.3, figures=[10.0, 9.0, 14.0]),
        Line("memory", "MB", None, None, [40, 41, 60]),
    ]
    joins = [Line("all join", "s", at_most=5.0, figures=[0.1, 4.0])]
    curves = [
        Curve("topics", "topics", [1, 10, 100], lines),
        Curve("members", "members", [10, 1000], joins, "as shipped"),
    ]
    return Growth("2026-01-02 03:04", "kqueue in pure Python", Conditions(2, "3.11.0", "Linux", 0.5), curves)


def test_growth_is_the_largest_figure_in_terms_of_the_first() -> None:
    (produce, memory), (join,) = (curve.lines for curve in grown().curves)
    assert produce.growth == 1.4
    assert (produce.passed, memory.passed, join.passed) == (False, None, True)
    produce.figures[2] = 13.0
    assert produce.passed


def test_row_of_a_curve_that_grows_too_far_is_bold() -> None:
    topics, members = grown().curves
    assert list(rows(topics)) == [
        ["Produce, CPU µs", "10", "9", "14", "**1.40 times (<= 1.3)**"],
        ["memory, MB", "40", "41", "60", ""],
    ]
    assert list(rows(members)) == [["all join, s", "0.1", "4", "<= 5 s"]]


def test_curve_that_is_measured_again_takes_the_place_of_its_kept_figures(tmp_path: Path) -> None:
    grown().save(tmp_path / "growth.json")
    again = grown()
    del again.curves[0]
    again.curves[0].lines[0].figures = [0.2, 0.3]
    curves = replaced(again, tmp_path / "growth.json").curves
    assert [(curve.name, curve.lines[0].figures) for curve in curves] == [
        ("topics", [10.0, 9.0, 14.0]),
        ("members", [0.2, 0.3]),
    ]


def test_without_a_compiler_kqueue_is_not_compiled_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(Missing, match="no C compiler"):
        peers.compiled_columns()


def test_compiled_kqueue_is_compared_with_the_brokers_that_pure_kqueue_is_compared_with() -> None:
    for pure, compiled in zip(peers.OURS, peers.COMPILED, strict=True):
        assert peers.COMPARED[compiled.name] == peers.COMPARED[pure.name]


def test_samples_of_a_profile_are_shares_by_area_and_function() -> None:
    profile = summarize(
        "one record",
        [
            ("/site/kqueue/network/session.py", "Session._readable", 60),
            ("<ProduceResponse v7 writer>", "write", 30),
            ("/usr/lib/python/json.py", "loads", 10),
        ],
    )
    assert profile.areas == {"network": 60, "requests and responses": 30, OTHER: 10}
    assert profile.functions == {
        "Session._readable (session.py)": 60,
        "write (<ProduceResponse v7 writer>)": 30,
        "loads (json.py)": 10,
    }
