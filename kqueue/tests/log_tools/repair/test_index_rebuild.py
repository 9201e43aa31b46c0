"""S3.4, S3.6: rebuilt files equal those that Kafka wrote."""

from __future__ import annotations

from kqueue.log.formats.filenames import LOG, PARTITION_METADATA
from kqueue.log_tools.repair.index_rebuild import IndexRebuild
from kqueue.storage import LocalStorage
from kqueue.tests.golden import data_folder
from kqueue.tests.tables import for_each

INTERVAL_BYTES = 512  # index.interval.bytes of that Kafka


@for_each("partition", ["v2-none-0", "v2-gzip-0", "txn-0", "v2-logappend-0", "v2-three-partitions-1"])
def test_files_of_kafka_4_3_byte_for_byte(partition: str) -> None:
    folder = data_folder("4.3") / partition
    wanted = {
        path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith((LOG, PARTITION_METADATA))
    }
    bases = sorted(int(path.name[:20]) for path in folder.glob("*.log"))
    rebuild = IndexRebuild(LocalStorage(folder.parent), partition, bases, wanted, 0, interval_bytes=INTERVAL_BYTES)
    rebuild.run()
    assert rebuild.files == wanted
    assert rebuild.end_offset == max(int(name[:20]) for name in wanted if name.endswith(".snapshot"))


def test_a_snapshot_beyond_the_end_cannot_be_made() -> None:
    rebuild = IndexRebuild(LocalStorage(data_folder("4.3")), "txn-0", [0, 25], ["00000000000000000999.snapshot"], 0)
    rebuild.run()
    assert rebuild.files == {}
