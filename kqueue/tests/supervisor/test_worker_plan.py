from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.base.errors import SettingError
from kqueue.config.properties import SourcedValue, make_config
from kqueue.metadata.sqlite import FILE_NAME
from kqueue.supervisor.worker_plan import plan_workers
from kqueue.tests.tables import for_each


def given(**settings: object) -> dict[str, SourcedValue]:
    return {name.replace("_", "."): SourcedValue(str(value), "a test") for name, value in settings.items()}


def values(plan_settings: object, *names: str) -> list[object]:
    config = make_config(plan_settings)  # type: ignore[arg-type]
    return [config[name] for name in names]


def test_worker_0_is_what_a_single_broker_is_and_others_follow(tmp_path: Path) -> None:
    folders = [str(tmp_path / "a"), str(tmp_path / "b")]
    plan = plan_workers(given(log_dirs=",".join(folders), listeners="PLAINTEXT://127.0.0.1:9092"), 3)
    assert [worker.node_id for worker in plan.workers] == [1, 2, 3]
    assert [values(worker.settings, "node.id", "log.dirs", "listeners") for worker in plan.workers] == [
        [1, folders, ["PLAINTEXT://127.0.0.1:9093"]],
        [2, [f"{folder}/workers/1" for folder in folders], ["PLAINTEXT://127.0.0.1:9094"]],
        [3, [f"{folder}/workers/2" for folder in folders], ["PLAINTEXT://127.0.0.1:9095"]],
    ]
    store = f"sqlite:{tmp_path / 'a' / FILE_NAME}"
    assert {str(values(worker.settings, "kqueue.cluster.store")) for worker in plan.workers} == {str([store])}
    assert list(tmp_path.iterdir()) == []


def test_the_older_name_of_the_node_id_counts(tmp_path: Path) -> None:
    plan = plan_workers(given(log_dirs=tmp_path, broker_id=7), 2)
    assert [values(worker.settings, "node.id", "broker.id") for worker in plan.workers] == [[7, None], [8, None]]


def test_advertised_ports_follow_and_port_0_stays(tmp_path: Path) -> None:
    listeners = "PLAINTEXT://0.0.0.0:9092,INSIDE://[::1]:0"
    plan = plan_workers(
        given(
            log_dirs=tmp_path,
            listeners=listeners,
            advertised_listeners="PLAINTEXT://kq.example.com:31000",
            listener_security_protocol_map="PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
            kqueue_allow_insecure="true",
        ),
        2,
    )
    assert values(plan.workers[1].settings, "listeners", "advertised.listeners") == [
        ["PLAINTEXT://0.0.0.0:9094", "INSIDE://[::1]:0"],
        ["PLAINTEXT://kq.example.com:31002"],
    ]


FACTOR, MIN_ISR = "transaction.state.log.replication.factor", "transaction.state.log.min.isr"


def test_internal_topics_have_one_replica_unless_a_factor_is_given(tmp_path: Path) -> None:
    names = ("offsets.topic.replication.factor", "share.coordinator.state.topic.replication.factor", FACTOR, MIN_ISR)
    assert values(plan_workers(given(log_dirs=tmp_path), 2).workers[1].settings, *names) == [1, 1, 1, 1]
    asked = {FACTOR: SourcedValue("3", "a test")}
    assert values(plan_workers(given(log_dirs=tmp_path) | asked, 3).workers[1].settings, *names) == [1, 1, 3, 2]


def test_a_store_that_is_given_stays_with_its_factors(tmp_path: Path) -> None:
    plan = plan_workers(given(log_dirs=tmp_path, kqueue_cluster_store="zookeeper:zk:2181"), 2)
    assert plan.store is None
    assert values(plan.workers[0].settings, "kqueue.cluster.store", FACTOR) == ["zookeeper:zk:2181", 3]


@for_each(
    "settings, words",
    [
        ({"kqueue_storage": "memory"}, "kqueue.storage=memory does not go with --workers: .*/dev/shm"),
        ({"kqueue_metadata": "memory"}, "kqueue.metadata=memory does not go with --workers"),
        ({"kqueue_cluster_store": "memory"}, "kqueue.cluster.store=memory does not go with --workers"),
        ({"listeners": "PLAINTEXT://127.0.0.1:65534"}, "PLAINTEXT://127.0.0.1:65534: 2 workers need as many ports"),
        (
            {
                "listeners": "PLAINTEXT://127.0.0.1:9092,INSIDE://127.0.0.1:9094",
                "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
            },
            "listeners PLAINTEXT and INSIDE: their ports are too near: 2 workers have the 2 ports after",
        ),
        ({"num_partitions": "many"}, "a test: Invalid value many for configuration num.partitions"),
    ],
)
def test_setting_that_excludes_workers_is_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        plan_workers(given(**settings), 2)
