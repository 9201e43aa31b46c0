"""Plugins passed to a broker: registered while it runs, removed afterwards, isolated when they
fail.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import kqueue
from kqueue.base.errors import InvalidConfig, ListenFailed, PluginError, SettingError
from kqueue.groups.assignors import ASSIGNORS
from kqueue.log.policies import POLICIES
from kqueue.metadata.memory import MemoryStore
from kqueue.records.batch import Record, iter_records
from kqueue.records.builder import build_batch
from kqueue.records.codecs import CODECS
from kqueue.records.partitioners import PARTITIONERS
from kqueue.storage import LocalStorage, MemoryStorage
from kqueue.tests.embedded.test_broker import ask, fetch, produce
from kqueue.tests.groups.assignors.plugins import FirstTakesAll
from kqueue.tests.plugged import MARKED, NEVER, KeptStore, LastPartition, MarkedCodec, OtherStorage
from kqueue.tests.waits import eventually
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from kqueue.wire.messages.describe_configs import DescribeConfigsResource
from kqueue.wire.messages.produce import PartitionProduceData, PartitionProduceResponse, TopicProduceData


def records_of(*values: bytes, codec: str = "none", keys: tuple[bytes, ...] = ()) -> bytes:
    records = [Record(number, 1_000, keys[number] if keys else b"key", value) for number, value in enumerate(values)]
    return bytes(build_batch(records, codec=codec))


def send(broker: kqueue.Broker, topic: str, *batches: bytes) -> list[PartitionProduceResponse]:
    """Send each batch to its own partition, in one request."""
    parts = [PartitionProduceData(index=index, records=data) for index, data in enumerate(batches)]
    data = [TopicProduceData(name=topic, partition_data=parts)]
    answer = ask(broker.bootstrap, "Produce", 8, acks=-1, timeout_ms=10_000, topic_data=data)
    rows: list[PartitionProduceResponse] = answer.responses[0].partition_responses
    return rows


def given() -> set[str]:
    """Return the names in the registries that are not built in."""
    return {
        entry.name
        for registry in (CODECS, PARTITIONERS, ASSIGNORS, POLICIES)
        for entry in registry
        if entry.origin == "Broker(...)"
    }


# --- registered while the broker runs


def test_objects_are_registered_while_it_runs_and_after_a_restart() -> None:
    broker = kqueue.Broker(
        codecs=[MARKED],
        partitioners={"last": LastPartition},
        cleanup_policies=[NEVER],
        assignors={"first": FirstTakesAll},
        settings={"log.cleanup.policy": "never", "group.consumer.assignors": "first"},
    )
    assert given() == set()
    with broker:
        assert given() == {"marked", "last", "never", "first"}
        broker.create_topic("t", kqueue_partitioner="last", cleanup_policy="never,delete")
        assert send(broker, "t", records_of(b"one", codec="marked"))[0].error_code == 0
        broker.restart()
        assert given() == {"marked", "last", "never", "first"}
        assert b"mine:" in fetch(broker.bootstrap, "t")
    assert given() == set()
    with broker, pytest.raises(InvalidConfig, match="no partitioner is called 'lst'; did you mean 'last'"):
        broker.create_topic("t", kqueue_partitioner="lst")


def test_failed_start_removes_them() -> None:
    with kqueue.Broker() as first:
        second = kqueue.Broker(port=first.port, codecs=[MARKED], cleanup_policies=[NEVER])
        with pytest.raises(ListenFailed):
            second.start()
        assert given() == set()


def test_two_brokers_may_share_objects() -> None:
    with kqueue.Broker(codecs=[MARKED], partitioners={"last": LastPartition}):
        with kqueue.Broker(codecs=[MARKED], partitioners={"last": LastPartition}):
            pass
        assert given() == {"marked", "last"}
        with pytest.raises(PluginError, match=r"partitioner 'last' .*held by 'last' of Broker\(\.\.\.\)"):
            kqueue.Broker(partitioners={"last": lambda rng: LastPartition(rng)}).start()


# --- storages and metadata stores


def test_a_storage_outlives_its_broker(tmp_path: Path) -> None:
    """The program owns the storage.

    Topics come back from their folders, although the metadata store ended with the broker.
    """
    storage = OtherStorage(str(tmp_path))
    broker = kqueue.Broker(storage=storage)
    with broker:
        broker.create_topic("t")
        produce(broker.bootstrap, "t", b"kept")
        broker.restart()
        assert b"kept" in fetch(broker.bootstrap, "t")
        assert broker._server.broker.replicas.host.flush_before_visible, "what is not memory counts as a disk"
        assert broker._server.config["kqueue.storage"] == "kqueue.tests.plugged:OtherStorage"
    assert (tmp_path / "t-0").is_dir()
    assert not list(Path.cwd().glob("kqueue-data"))
    with broker:
        assert b"kept" in fetch(broker.bootstrap, "t")


def test_callable_creates_the_storage_of_each_folder_at_each_start(tmp_path: Path) -> None:
    opened_folders: list[str] = []

    def make(folder: str) -> LocalStorage:
        opened_folders.append(folder)
        return OtherStorage(folder)

    folders = [str(tmp_path / "a"), str(tmp_path / "b")]
    with kqueue.Broker(storage=make, log_dirs=folders) as broker:
        broker.create_topic("t")
        produce(broker.bootstrap, "t", b"kept")
        broker.restart()
        assert b"kept" in fetch(broker.bootstrap, "t")
    assert opened_folders == folders * 2
    with pytest.raises(SettingError, match="make is called with the path of a data folder, and none was given"):
        kqueue.Broker(storage=make)


def test_metadata_store_may_be_an_object(tmp_path: Path) -> None:
    store, opened = MemoryStore(), list[str]()

    def open_store(folder: str) -> KeptStore:
        opened.append(folder)
        return KeptStore()

    with kqueue.Broker(tmp_path / "a", metadata=store) as broker:
        broker.create_topic("t")
    assert "/topics/t" in store.read("/topics/")
    with kqueue.Broker(tmp_path / "b", metadata=open_store) as broker:
        broker.create_topic("t")
    assert opened == [str(tmp_path / "b")]
    assert not list(tmp_path.rglob("*.db"))


def test_built_in_plugins_are_named(tmp_path: Path) -> None:
    with kqueue.Broker(storage=MemoryStorage(), metadata=MemoryStore()) as broker:
        config = broker._server.config
        assert (config["kqueue.storage"], config["kqueue.metadata"]) == ("memory", "memory")
    with kqueue.Broker(storage=LocalStorage(str(tmp_path))) as broker:
        assert broker._server.config["kqueue.storage"] == "local"
    with pytest.raises(SettingError, match="kqueue.storage is given twice"):
        kqueue.Broker(storage=MemoryStorage(), kqueue_storage="memory")
    with pytest.raises(PluginError, match=r"storage 'int' of Broker\(storage=...\): expected a Storage, found int"):
        kqueue.Broker(storage=5)  # type: ignore[arg-type]


# --- client requests import nothing


@pytest.fixture
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that could be imported, and must not be."""
    name = f"evil_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text("class Plugin:\n    name = 'evil'\n    id = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


@pytest.mark.parametrize("setting", ["cleanup.policy", "kqueue.partitioner", "compression.type"])
@pytest.mark.parametrize("of_os", [True, False])
def test_a_topics_settings_never_import_anything(setting: str, of_os: bool, evil: str) -> None:
    value = "os:system" if of_os else f"{evil}:Plugin"
    with kqueue.Broker() as broker:
        topic = CreatableTopic(
            name="t", num_partitions=1, replication_factor=1, configs=[CreatableTopicConfig(name=setting, value=value)]
        )
        answer = ask(broker.bootstrap, "CreateTopics", 4, topics=[topic], timeout_ms=5_000).topics[0]
        assert answer.error_code == ErrorCode.INVALID_CONFIG
        assert value in answer.error_message
        assert evil not in sys.modules
        with pytest.raises(InvalidConfig):
            broker.create_topic("t", **{setting: value})
        assert evil not in sys.modules
    PARTITIONERS.find(f"{evil}:Plugin")
    assert evil in sys.modules, "it could have been"


def test_clients_see_the_partitioner_of_a_topic() -> None:
    with kqueue.Broker(partitioners={"last": LastPartition}) as broker:
        broker.create_topic("mine", kqueue_partitioner="last")
        broker.create_topic("usual")
        resources = [
            DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=["kqueue.partitioner"])
            for name in ("mine", "usual")
        ]
        answer = ask(broker.bootstrap, "DescribeConfigs", 1, resources=resources)
        configs = [(one.value, one.config_source) for result in answer.results for one in result.configs]
        assert configs == [("last", 1), ("murmur2", 5)]


def test_topic_keeps_the_name_of_a_missing_partitioner(tmp_path: Path) -> None:
    """Only producers need the partitioner, so the broker serves without it."""
    with kqueue.Broker(tmp_path, partitioners={"last": LastPartition}) as broker:
        broker.create_topic("mine", kqueue_partitioner="last")
    with kqueue.Broker(tmp_path) as broker:
        produce(broker.bootstrap, "mine", b"value")
        resources = [
            DescribeConfigsResource(resource_type=2, resource_name="mine", configuration_keys=["kqueue.partitioner"])
        ]
        (result,) = ask(broker.bootstrap, "DescribeConfigs", 1, resources=resources).results
        assert result.configs[0].value == "last"


# --- a failure affects one operation only


@dataclass(frozen=True)
class BreakableCodec(MarkedCodec):
    """Fails on records that request it, with a message that must not reach clients."""

    name: str = "breakable"
    id: int = 6

    def decompress(self, data: Any, limit: int) -> bytes:
        content = super().decompress(data, limit)
        if b"break" in content:
            raise RuntimeError("the secret is 42")
        return content


def test_failed_codec_refuses_one_partition_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with kqueue.Broker(codecs=[BreakableCodec()]) as broker:
        broker.create_topic("t", 3, cleanup_policy="compact")
        good, bad, other = send(
            broker,
            "t",
            records_of(b"good", codec="breakable"),
            records_of(b"break", codec="breakable"),
            records_of(b"other", codec="gzip"),
        )
        assert (good.error_code, other.error_code) == (0, 0)
        assert bad.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert bad.error_message == "codec 'breakable' of Broker(...) failed in decompress"
        assert [partition.log_end_offset for partition in broker._server.broker.topics.get("t").partitions] == [1, 0, 1]
    assert [record.getMessage() for record in caplog.records if record.name == "kqueue.records"] == [
        "codec 'breakable' of Broker(...) failed in decompress: RuntimeError: the secret is 42"
    ]


class FullStorage(OtherStorage):
    """A storage whose disk fails on request, with an error that no storage should raise."""

    broken = False

    def open(self, path: str, **named: Any) -> Any:
        file = super().open(path, **named)
        return FullFile(file, self) if path.startswith("bad-") and path.endswith(".log") else file


class FullFile:
    def __init__(self, file: Any, storage: FullStorage) -> None:
        self._file = file
        self._storage = storage

    def append(self, data: Any) -> Any:
        if self._storage.broken:
            raise RuntimeError("the secret is 42")
        return self._file.append(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_failed_storage_affects_one_log_and_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    storage = FullStorage(str(tmp_path))
    with kqueue.Broker(storage=storage) as broker:
        for name in ("bad", "good"):
            broker.create_topic(name)
        storage.broken = True
        (answer,) = send(broker, "bad", records_of(b"lost"))
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "storage 'FullStorage' of Broker(storage=...): append failed" in answer.error_message
        assert "secret" not in answer.error_message
        assert send(broker, "good", records_of(b"kept"))[0].error_code == 0
    assert any("append failed: RuntimeError: the secret is 42" in record.getMessage() for record in caplog.records)


class BreakingStore(KeptStore):
    """Fails to store a topic of a certain name."""

    def commit(self, guards: Any, puts: Any, deletes: Any) -> Any:
        if "/topics/break" in puts:
            raise ConnectionError("the secret is 42")
        return super().commit(guards, puts, deletes)


def test_failed_metadata_store_affects_one_change() -> None:
    with kqueue.Broker(metadata=BreakingStore()) as broker:
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("break", "whole")]
        bad, good = ask(broker.bootstrap, "CreateTopics", 4, topics=topics, timeout_ms=5_000).topics
        assert (bad.error_code, good.error_code) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
        assert "metadata store 'BreakingStore' of Broker(metadata=...): commit failed" in bad.error_message
        assert "secret" not in bad.error_message


# --- in a worker process


@dataclass(frozen=True)
class LockedCodec(MarkedCodec):
    """A codec that cannot be pickled."""

    lock: object = None


def fill(broker: kqueue.Broker, topic: str, codec: str) -> None:
    """Append batches of ten records; compaction keeps some of each."""
    keys = tuple(b"key-%d" % number for number in range(10))
    for turn in range(20):
        values = [b"%d" % turn + b"." * 100] * 10
        mixed = keys if turn % 2 else (*keys[:5], *(b"once-%d-%d" % (turn, number) for number in range(5)))
        assert send(broker, topic, records_of(*values, codec=codec, keys=mixed))[0].error_code == 0


def compacting(path: Path, codec: MarkedCodec) -> kqueue.Broker:
    return kqueue.Broker(path, codecs=[codec], log_cleaner_backoff_ms=20)


def test_batches_in_a_plugin_codec_are_compacted_in_a_worker_process(tmp_path: Path) -> None:
    with compacting(tmp_path, MARKED) as broker:
        broker.create_topic(
            "t", cleanup_policy="compact", segment_bytes=200, file_delete_delay_ms=0, min_cleanable_dirty_ratio="0.01"
        )
        fill(broker, "t", "marked")
        server = broker._server.broker
        eventually(lambda: (server.logs.checkpoints.cleaner_offset(("t", 0)) or 0) >= 180)
        assert server.upkeep.cleanup.cleaner.uncleanable == {}
        first = list(iter_records(fetch(broker.bootstrap, "t")))
        assert [record.key for record in first] == [b"once-0-%d" % number for number in range(5)], (
            "half of the batch was left out"
        )
    assert sum(path.read_bytes().count(b"mine:") for path in (tmp_path / "t-0").glob("*.log")) >= 10


@pytest.mark.long
def test_unpicklable_codec_disables_compaction_of_the_log_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with compacting(tmp_path, LockedCodec("locked", 6, lock=threading.Lock())) as broker:
        for name, codec in (("t", "locked"), ("other", "snappy")):
            broker.create_topic(name, cleanup_policy="compact", segment_bytes=200, min_cleanable_dirty_ratio="0.01")
            fill(broker, name, codec)
        server = broker._server.broker
        eventually(lambda: bool(server.upkeep.cleanup.cleaner.uncleanable))
        assert (
            "codec 'locked' of Broker(...) can't be sent to the process of this job"
            in server.upkeep.cleanup.cleaner.uncleanable["t", 0]
        )
        eventually(lambda: (server.logs.checkpoints.cleaner_offset(("other", 0)) or 0) >= 180)
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert any("t-0" in line and "make it an object of a class at the top of a module" in line for line in messages)


def test_brokers_of_one_program_may_share_a_cluster() -> None:
    with closing(MemoryStore()) as store:
        with kqueue.Broker(cluster=store, node_id=1) as first, kqueue.Broker(cluster=store, node_id=2) as second:
            second.create_topic("t", 4)
            eventually(lambda: "t" in first.topics)
            with pytest.raises(RuntimeError, match="a member of a cluster can't be reset"):
                first.reset()
            first.restart()
        assert store.sessions() == {}
    with pytest.raises(SettingError, match=r"kqueue\.cluster\.store is given twice"):
        kqueue.Broker(cluster=store, kqueue_cluster_store="sqlite:/x")
