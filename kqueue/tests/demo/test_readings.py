from __future__ import annotations

from kqueue.demo.readings import VALUE_BYTES, Readings, ReadingsCheck
from kqueue.tests.tables import for_each


def check_of(readings: Readings) -> ReadingsCheck:
    check = ReadingsCheck(readings)
    next_offsets = [0] * readings.partitions
    for partition, value in readings:
        check.note(partition, next_offsets[partition], value)
        next_offsets[partition] += 1
    return check


def test_readings_fill_their_size_evenly() -> None:
    readings = Readings(1_000_000, 3)
    assert readings.count == 123
    values = [value for _, value in readings]
    assert {len(value) for value in values} == {VALUE_BYTES}
    assert len(set(values)) == readings.count
    assert [partition for partition, _ in readings][:4] == [0, 1, 2, 0]


def test_readings_that_come_in_order_have_no_difference() -> None:
    readings = Readings(100_000, 3)
    check = check_of(readings)
    assert (check.count, check.difference) == (readings.count, None)


@for_each(
    "offset, number, words",
    [
        (1, 0, "offset 1 of partition 0 is not reading 0"),
        (0, 3, "offset 0 of partition 0 is not reading 0"),
    ],
)
def test_first_reading_that_is_out_of_place_is_named(offset: int, number: int, words: str) -> None:
    readings = Readings(100_000, 3)
    check = ReadingsCheck(readings)
    check.note(0, offset, readings.value(number))
    check.note(1, 7, b"")
    assert check.difference == words
