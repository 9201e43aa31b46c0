"""The plan of each worker: its node id, data folders, listeners and the settings that follow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.base.text import counted
from kqueue.broker.metadata.identity import node_id
from kqueue.config import metrics_listener
from kqueue.config.data_folders import data_folders, metadata_folder
from kqueue.config.exposure import check_exposure
from kqueue.config.listeners import ListenerAddress, ListenerConfig, parse_listeners
from kqueue.config.plugins import metadata_store_name
from kqueue.config.properties import SourcedValue, make_config
from kqueue.metadata.sqlite import FILE_NAME
from kqueue.replication.config import CLUSTER_STORE, GIVEN_STORE, SQLITE_STORE

WORKERS_FOLDER = "workers"
"""In a data folder. It has no number at its end, as folders of partitions have."""
INTERNAL_REPLICAS = {
    "offsets.topic.replication.factor": (),
    "transaction.state.log.replication.factor": ("transaction.state.log.min.isr",),
    "share.coordinator.state.topic.replication.factor": ("share.coordinator.state.topic.min.isr",),
}
"""The factors that Kafka sets to 3, and what goes with each."""
PORT_MAX = 65535
ORIGIN = "--workers"


class WorkerPlan(NamedTuple):
    """One worker.

    Attributes:
        number: from 0.
        settings: all that are given; others have their defaults.
        listeners: its own addresses, by name; port 0: a free one.
    """

    number: int
    node_id: int
    settings: Mapping[str, SourcedValue]
    listeners: Mapping[str, ListenerAddress]


class Plan(NamedTuple):
    """All workers.

    Attributes:
        config: what a single broker would have, with the store of the workers.
        bootstrap: the addresses that all workers accept from, by name.
        store: the file of the SQLite store in the data folder; None: `kqueue.cluster.store` names
            the store.
    """

    config: Config
    bootstrap: Mapping[str, ListenerConfig]
    workers: tuple[WorkerPlan, ...]
    store: Path | None


def plan_workers(given: Mapping[str, SourcedValue], count: int) -> Plan:
    """Return the workers, from 1, that serve with the given settings. Nothing is created.

    Raises: SettingError: a value is bad, or does not go with workers.
    """
    if os.name != "posix":
        raise SettingError("--workers needs a system on which processes pass sockets on, as Linux or macOS")
    placeholder = SourcedValue(SQLITE_STORE + FILE_NAME, ORIGIN)
    config = make_config({CLUSTER_STORE: placeholder, **given})
    _check_stores(config)
    settings = dict(given)
    store = None
    if CLUSTER_STORE not in given:
        store = Path(metadata_folder(data_folders(config), ()), FILE_NAME).absolute()
        settings[CLUSTER_STORE] = SourcedValue(f"{SQLITE_STORE}{store}", ORIGIN)
        settings |= dict(_one_replica(given))
    first = node_id(config)
    settings.pop("broker.id", None)
    listeners = parse_listeners(config)
    check_exposure(config, listeners)
    bootstrap = {plan.bind.name: plan for plan in listeners}
    _check_ports(bootstrap, count)
    workers = []
    for number in range(count):
        own = settings | {
            "node.id": SourcedValue(str(first + number), ORIGIN),
            "log.dirs": SourcedValue(",".join(_folders(config, number)), ORIGIN),
            **_listener_settings(bootstrap, number),
            **_metrics_settings(config, number),
        }
        own_listeners = {plan.bind.name: _shifted(plan.bind, number) for plan in bootstrap.values()}
        workers.append(WorkerPlan(number, first + number, own, own_listeners))
    return Plan(config, bootstrap, tuple(workers), store)


def _check_stores(config: Config) -> None:
    if config["kqueue.storage"] == "memory":
        raise SettingError(
            "kqueue.storage=memory does not go with --workers: a worker that is started again would come back without "
            "its records; name a folder in memory instead, as log.dirs=/dev/shm/kqueue"
        )
    if config[CLUSTER_STORE] == GIVEN_STORE:
        raise SettingError(f"{CLUSTER_STORE}={GIVEN_STORE} does not go with --workers: processes can't share it")
    if metadata_store_name(config) != "sqlite":
        raise SettingError(
            f"kqueue.metadata={config['kqueue.metadata']} does not go with --workers: they share an SQLite store in "
            f"the data folder, or what {CLUSTER_STORE} names"
        )


def _one_replica(given: Mapping[str, SourcedValue]) -> Iterator[tuple[str, SourcedValue]]:
    """Yield the settings that make internal topics have one replica, as others have."""
    for factor, more in INTERNAL_REPLICAS.items():
        if factor not in given:
            yield from ((name, SourcedValue("1", ORIGIN)) for name in (factor, *more) if name not in given)


def _folders(config: Config, number: int) -> list[str]:
    folders = data_folders(config)
    return folders if number == 0 else [str(Path(folder, WORKERS_FOLDER, str(number))) for folder in folders]


def _listener_settings(bootstrap: Mapping[str, ListenerConfig], number: int) -> dict[str, SourcedValue]:
    own = [plan.bind for plan in bootstrap.values()]
    advertised = [plan.advertised for plan in bootstrap.values() if plan.advertised is not None]
    addresses = {"listeners": own, "advertised.listeners": advertised}
    return {
        name: SourcedValue(",".join(str(_shifted(address, number)) for address in listed), ORIGIN)
        for name, listed in addresses.items()
        if listed
    }


def _metrics_settings(config: Config, number: int) -> dict[str, SourcedValue]:
    """Return where a worker serves its metrics: worker 0 at the address itself, the others at the
    ports after it; port 0: a free one.
    """
    listener = metrics_listener.metrics_listener(config)
    if listener is None:
        return {}
    return {metrics_listener.SETTING: SourcedValue(str(listener.shifted(number)), ORIGIN)}


def _shifted(address: ListenerAddress, number: int) -> ListenerAddress:
    """Return the address of a worker: the ports after that of all; port 0: a free one."""
    return address._replace(port=address.port + 1 + number) if address.port else address


def _check_ports(bootstrap: Mapping[str, ListenerConfig], count: int) -> None:
    """Raise SettingError: the ports of a listener and of its workers are another one's, or too
    high.
    """
    taken: dict[tuple[str, int], str] = {}
    for plan in bootstrap.values():
        port = plan.bind.port
        if port + count > PORT_MAX:
            raise SettingError(f"listener {plan.bind}: {count} workers need as many ports after it, up to {PORT_MAX}")
        for each in range(port, port + count + 1) if port else ():
            other = taken.setdefault((plan.bind.host, each), plan.bind.name)
            if other != plan.bind.name:
                raise SettingError(
                    f"listeners {other} and {plan.bind.name}: their ports are too near: {count} workers have the "
                    f"{counted(count, 'port')} after that of each listener"
                )
