from __future__ import annotations

from kqueue.log_tools.dump.options import MAX_BYTES, DumpOptions
from kqueue.records.record import Record


def test_defaults_read_the_whole_log_and_show_batches() -> None:
    options = DumpOptions()
    assert (options.records, options.contents, options.skip_metadata, options.form) == (False, False, False, "kafka")
    assert (options.sanity_only, options.verify_only) == (False, False)
    assert options.whole_log
    assert options.decode(Record(0, 0, None, b"\xc3\xa9\xff")) == (None, "é\N{REPLACEMENT CHARACTER}")


def test_fewer_bytes_than_the_greatest_number_are_a_part_of_the_log() -> None:
    """2**31 - 1, the greatest int of Java, means all."""
    assert MAX_BYTES == 2**31 - 1
    assert DumpOptions(max_bytes=2**31 - 1).whole_log
    assert not DumpOptions(max_bytes=2**31 - 2).whole_log
    assert not DumpOptions(max_bytes=0).whole_log
