"""Selects segments as `cleanup.policy=delete` does; `archive` writes them before deletion."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kqueue.base.config import TopicConfig
from kqueue.base.errors import SettingError
from kqueue.log.policies import CommittedOffsets, Drop, LogView
from kqueue.log.policies.delete import DeletePolicy
from kqueue_cleanup_archive.archive import Archive

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

VARIABLE = "KQUEUE_ARCHIVE_URI"


class ArchivePolicy:
    """Deletes segments expired by `retention.ms` and `retention.bytes` once they are archived.

    Args:
        uri: location of the archive: a path, or a URI that `pyarrow.fs.FileSystem.from_uri` accepts
            (file://, s3://, gs://, abfs://, hdfs://). None: the environment variable
            KQUEUE_ARCHIVE_URI, read at each call of `plan`.
        filesystem: makes `uri` a path in this filesystem. It must be picklable, unless the broker
            keeps its files in memory.
        name: the value of `cleanup.policy` in topics. The installed policy is named ``archive``,
            so each further archive needs another name.
    """

    def __init__(
        self, uri: str | Path | None = None, *, filesystem: FileSystem | None = None, name: str = "archive"
    ) -> None:
        self.name = name
        self._uri = None if uri is None else str(uri)
        self._filesystem = filesystem
        self._delete = DeletePolicy()

    def plan(self, log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Drop | None:
        """Plan a deletion as `DeletePolicy` does, with archiving before it.

        Raises: SettingError: no archive is configured; nothing is deleted.
        """
        uri = self._uri or os.environ.get(VARIABLE)
        if not uri:
            raise SettingError(
                f"the location of the archive is not set: set {VARIABLE}, or pass ArchivePolicy(uri) to the broker"
            )
        drop = self._delete.plan(log, groups, config, now_ms)
        if drop is None:
            return None
        return replace(drop, why=f"{drop.why}, archived", before_delete=Archive(uri, self._filesystem))


ARCHIVE = ArchivePolicy()
