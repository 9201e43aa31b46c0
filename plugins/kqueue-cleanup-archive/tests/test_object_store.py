"""An archive in S3, as moto plays it, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kqueue_cleanup_archive import Archive
from logs import DAY_MS, START_MS, archived, fill, partition_of, sealed
from moto.server import ThreadedMotoServer
from pyarrow.fs import FileSelector, FileSystem

from kqueue.storage import MemoryStorage
from kqueue.testing.simulation import Simulation


@pytest.fixture
def store() -> Iterator[str]:
    """Where it is: a URI with a bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        uri = f"s3://key:secret@bucket/archive?scheme=http&endpoint_override=127.0.0.1%3A{port}&allow_bucket_creation=true&region=us-east-1"
        filesystem, _ = FileSystem.from_uri(uri)
        filesystem.create_dir("bucket")
        yield uri
    finally:
        server.stop()


def test_records_are_in_the_bucket_once_and_objects_have_their_names_when_they_are_whole(store: str) -> None:
    sim = Simulation({"kqueue.storage": "memory"}, storage=MemoryStorage())
    partition = partition_of(sim)
    fill(sim, partition, 40, [START_MS, START_MS + DAY_MS])
    for count in (3, None):  # the first time, and after a crash before the segments were deleted
        Archive(store)(sealed(partition, count))
    filesystem, root = FileSystem.from_uri(store)
    table = archived(root, filesystem)
    assert table["offset"].to_pylist() == list(range(sealed(partition).end_offset))
    objects = [info.path for info in filesystem.get_file_info(FileSelector(root, recursive=True)) if info.is_file]
    assert len(objects) == 4
    assert all(
        path.endswith(".parquet") and path.startswith("bucket/archive/topic=orders/date=2023-12-") for path in objects
    )


def test_a_bucket_that_is_not_there_is_told(store: str) -> None:
    sim = Simulation({"kqueue.storage": "memory"}, storage=MemoryStorage())
    partition = partition_of(sim)
    fill(sim, partition, 10)
    with pytest.raises(OSError, match="nowhere"):
        Archive(store.replace("bucket/archive", "nowhere/archive"))(sealed(partition))
