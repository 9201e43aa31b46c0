"""S5.2: compaction of sealed segments as a whole, example by example."""

from __future__ import annotations

from kqueue.tests.log.compaction.helpers import compact, data_records, new_log, open_compacted, put, table


def test_the_last_value_of_each_key_stays_at_its_offset() -> None:
    """S5.2"""
    storage, log = new_log()
    for number in range(20):
        put(log, (b"a", b"%d" % number), (b"b%d" % (number % 3), b"%d" % number))
    log.roll()
    put(log, (b"a", b"active"))
    before = data_records(storage)
    done = compact(storage)
    after = data_records(storage)
    assert table(after) == table(before)
    assert [(record.offset, record.key) for record in after] == [
        (35, b"b2"), (37, b"b0"), (38, b"a"), (39, b"b1"), (40, b"a"),
    ]  # fmt: skip
    assert done.clean_to == 40
    log = open_compacted(storage)
    assert (log.start_offset, log.end_offset) == (0, 41)
