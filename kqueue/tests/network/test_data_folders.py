"""`log.dirs` with folders that cannot be used."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from kqueue.app import Server
from kqueue.base.errors import StorageFailed
from kqueue.config.properties import SourcedValue, make_config
from kqueue.storage import LocalStorage
from kqueue.storage.fault_injection import FaultInjectingStorage, InjectedFailure, StorageHooks
from kqueue.tests.network.harness import FREE_PORT, connect, serving
from kqueue.tests.test_app import create_topic, produce
from kqueue.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsTopic

STORAGE_ERROR = 56


def test_missing_folder_is_offline_and_the_others_serve(tmp_path: Path) -> None:
    """S3.1: partitions of a missing folder return KAFKA_STORAGE_ERROR until the folder is back.

    New partitions are created in the other folders.
    """
    folders = [str(tmp_path / name) for name in ("one", "two")]

    async def test() -> None:
        async with serving(tmp_path, log_dirs=folders) as server:
            client = await connect(server)
            for name in ("a", "b"):
                await create_topic(client, name)
                await produce(client, name, b"x")
        gone = next(name for name in ("a", "b") if (tmp_path / "two" / f"{name}-0").exists())
        kept = "a" if gone == "b" else "b"
        (tmp_path / "two").rename(tmp_path / "elsewhere")
        (tmp_path / "two").write_bytes(b"no folder")
        async with serving(tmp_path, log_dirs=folders) as server:
            client = await connect(server)
            await produce(client, kept, b"y")
            listed = await client.ask("ListOffsets", 1, topics=[_first_offset(gone), _first_offset(kept)])
            assert [topic.partitions[0].error_code for topic in listed.topics] == [STORAGE_ERROR, 0]
            await create_topic(client, "new")
            await produce(client, "new", b"z")
            response = await client.ask("DescribeLogDirs", 1)
            assert [(Path(one.log_dir).name, one.error_code) for one in response.results] == [
                ("one", 0),
                ("two", STORAGE_ERROR),
            ]
        (tmp_path / "two").unlink()
        (tmp_path / "elsewhere").rename(tmp_path / "two")
        async with serving(tmp_path, log_dirs=folders) as server:
            client = await connect(server)
            for name in ("a", "b", "new"):
                await produce(client, name, b"again")

    asyncio.run(test())


def _first_offset(topic: str) -> object:
    from kqueue.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic

    return ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-2)])


def test_start_fails_without_the_folder_of_the_metadata_store(tmp_path: Path) -> None:
    folders = [str(tmp_path / name) for name in ("one", "two")]

    async def test() -> None:
        async with serving(tmp_path, log_dirs=folders) as server:
            await create_topic(await connect(server), "a", 2)
        async with serving(tmp_path, log_dirs=folders[::-1]) as server:
            assert server.broker.topics.names() == ["a"], "the order of the folders may change"
        (tmp_path / "one").rename(tmp_path / "elsewhere")
        (tmp_path / "one").write_bytes(b"no folder")
        with pytest.raises(
            StorageFailed, match=r"\(kqueue.db\) is in no data folder, and may be in one that can't be used"
        ):
            async with serving(tmp_path, log_dirs=folders):
                pass
        with pytest.raises(StorageFailed, match="can't make data folder"):
            async with serving(tmp_path, log_dirs=folders[:1]):
                pass

    asyncio.run(test())


def test_hung_disk_does_not_delay_other_disks(tmp_path: Path) -> None:
    """Thirteen partitions wait for the slow disk, more than it has threads; the other disk still
    serves.
    """
    answer, hooks = threading.Event(), StorageHooks()

    def hold(kind: str, path: str, size: int) -> InjectedFailure | None:
        if kind in ("sync", "sync_folder", "write_atomic"):
            assert answer.wait(60)
        return None

    async def test() -> None:
        storages = [LocalStorage(tmp_path / "one"), FaultInjectingStorage(LocalStorage(tmp_path / "two"), hooks)]
        settings = {"listeners": FREE_PORT, "log.dirs": [str(tmp_path / "one")]}
        server = Server(
            make_config({name: SourcedValue(value, "test") for name, value in settings.items()}), storages=storages
        )
        await server.start()
        try:
            clients = [await connect(server) for _ in range(14)]
            client = clients.pop()
            names = [f"t{number}" for number in range(26)]
            for name in names:
                await create_topic(client, name)
            await server.jobs.drain()
            slow = [name for name in names if (tmp_path / "two" / f"{name}-0").exists()]
            healthy = [name for name in names if name not in slow]
            assert len(slow) == 13
            hooks.hooks = (hold,)
            waiting = [asyncio.create_task(produce(*one, b"x")) for one in zip(clients, slow, strict=True)]
            await asyncio.sleep(0)
            async with asyncio.timeout(60):
                for name in healthy:
                    await produce(client, name, b"x")
                topics = [
                    DeleteRecordsTopic(
                        name=healthy[0], partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)]
                    )
                ]
                deleted = await client.ask("DeleteRecords", 2, topics=topics, timeout_ms=30_000)
                assert deleted.topics[0].partitions[0].error_code == 0
                assert (await client.ask("DeleteTopics", 5, topic_names=[healthy[1]], timeout_ms=30_000)).responses[
                    0
                ].error_code == 0
            assert not any(task.done() for task in waiting)
            answer.set()
            assert [one.error_code for one in await asyncio.gather(*waiting)] == [0] * 13
        finally:
            answer.set()
            for one in (*clients, client):
                await one.close()
            await server.stop()

    asyncio.run(test())
