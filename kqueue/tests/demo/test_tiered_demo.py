from __future__ import annotations

from dataclasses import replace

from kqueue.demo.readings import Readings, ReadingsCheck
from kqueue.demo.tiered_demo import TieredResult
from kqueue.tests.demo.test_readings import check_of
from kqueue.tests.tables import for_each

READINGS = Readings(100_000, 3)


def good() -> TieredResult:
    return TieredResult(
        READINGS,
        sent=READINGS.count,
        send_s=1.0,
        tier="file:///tier",
        local_limit=10_000,
        local_bytes=12_000,
        lost_broker=2,
        copied_bytes=9_000,
        read=check_of(READINGS),
        read_s=2.0,
        spark_count=READINGS.count,
        tiered=READINGS.count,
        recovered=check_of(READINGS),
        total_s=9.0,
    )


def wrong() -> ReadingsCheck:
    check = ReadingsCheck(READINGS)
    check.note(0, 5, b"")
    return check


def test_complete_run_has_no_differences() -> None:
    assert good().differences() == []


@for_each(
    "change, words",
    [
        ({"read": None}, "nothing was read from the start"),
        ({"recovered": None}, "nothing was read after the recovery"),
        ({"read": wrong()}, "from the start: offset 5 of partition 0 is not reading 0"),
        ({"tiered": 29}, "30 of 29 readings were read after the recovery"),
        ({"spark_count": 7}, "Spark found 7 of 30 readings in the bucket"),
        ({"local_bytes": 20_001}, "a broker has 20.0 kB of log files"),
    ],
)
def test_each_deviation_is_half_a_sentence(change: dict[str, object], words: str) -> None:
    assert words in replace(good(), **change).differences()  # type: ignore[arg-type]


def test_without_spark_the_table_says_why() -> None:
    result = replace(good(), spark_count=None)
    assert result.differences() == []
    assert ("Read by Spark", "-", "pyspark is not installed") in result.rows()


def test_rows_name_sizes_and_rates() -> None:
    rows = {name: (count, note) for name, count, note in good().rows()}
    assert rows["Readings sent"] == ("30", "240.0 kB, acks=all, 0 MB/s")
    assert rows["Broker 2 lost its disk"][0] == "9.0 kB"
