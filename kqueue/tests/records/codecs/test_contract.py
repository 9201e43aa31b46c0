from __future__ import annotations

from kqueue.base.errors import CorruptBatch
from kqueue.records.codecs.contract import above_limit, damaged
from kqueue.tests.tables import for_each


@for_each("error", [above_limit("gzip", 7), damaged("gzip", "why")])
def test_both_refusals_are_corrupt_batches_and_name_the_codec(error: CorruptBatch) -> None:
    assert isinstance(error, CorruptBatch)
    assert str(error).startswith("gzip: ")
