"""Tells whether a former run had workers that would be missing now."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from kqueue.base.errors import SettingError, StorageFailed
from kqueue.base.names import parse_partition_folder
from kqueue.base.text import counted
from kqueue.config.data_folders import data_folders
from kqueue.metadata.sqlite import SqliteStore
from kqueue.replication.registrations import TOPICS_PREFIX, TopicRegistration, sole_registration
from kqueue.supervisor.worker_plan import WORKERS_FOLDER, Plan


def check_former_workers(plan: Plan) -> None:
    """Check that no missing worker has partitions: replicas in the store of the data folder; where
    the settings name another store, folders in the data folders. Blocks.

    Raises: SettingError: one of a former run's workers is missing. StorageFailed.
    """
    first, count = plan.workers[0].node_id, len(plan.workers)
    held: dict[int, list[str]] = defaultdict(list)
    for number, partition in _in_folders(plan) if plan.store is None else _in_store(plan.store, first):
        held[number].append(partition)
    missing = [number for number in held if number >= count]
    if missing:
        number = max(missing)
        raise SettingError(
            f"worker {number} (node {first + number}) of a former run has {counted(len(held[number]), 'partition')} "
            f"({held[number][0]}, ...): start with --workers {number + 1}; to have fewer workers, move what the others "
            "have to them with `kqueue cluster reassign` first"
        )


def _in_store(path: Path, first: int) -> Iterator[tuple[int, str]]:
    """Yield each replica's worker and partition."""
    if not path.exists():
        return
    store = SqliteStore(path)
    try:
        records = store.read(TOPICS_PREFIX)
    finally:
        store.close()
    for key, entry in records.items():
        name = key.removeprefix(TOPICS_PREFIX)
        topic = TopicRegistration.from_bytes(name, entry.value, sole_registration(first, 0))
        for index, partition in enumerate(topic.partitions):
            for node in partition.replicas:
                yield node - first, f"{name}-{index}"


def _in_folders(plan: Plan) -> Iterator[tuple[int, str]]:
    """Yield the worker and partition of each folder of workers but worker 0."""
    for folder in data_folders(plan.config):
        for worker in _folders(Path(folder, WORKERS_FOLDER)):
            if worker.isdecimal():
                for name in sorted(_folders(Path(folder, WORKERS_FOLDER, worker))):
                    if parse_partition_folder(name) is not None:
                        yield int(worker), name


def _folders(path: Path) -> list[str]:
    """Return the names of the folders in one; none if it does not exist."""
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StorageFailed(f"{path} can't be read: {error.strerror}") from None
