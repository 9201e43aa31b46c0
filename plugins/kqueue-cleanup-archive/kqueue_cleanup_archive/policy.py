"""When segments go: as `cleanup.policy=delete` says. What is done before is in `archive`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kqueue.base.errors import SettingError
from kqueue.base.settings import TopicConfig
from kqueue.log.policies import CommittedOffsets, Drop, LogView
from kqueue.log.policies.delete import DeletePolicy
from kqueue_cleanup_archive.archive import Archive

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

VARIABLE = "KQUEUE_ARCHIVE_URI"


class ArchivePolicy:
    """`retention.ms` and `retention.bytes` decide what has expired; it is deleted once it is in the
    archive, verified.

    Args: uri: where the archive is: a path, or what `pyarrow.fs.FileSystem.from_uri` takes
    (file://, s3://, gs://, abfs://, hdfs://); None: what the environment variable
    KQUEUE_ARCHIVE_URI says when the broker asks. filesystem: then `uri` is a path in it; it can be
    pickled, unless the broker keeps its files in memory. name: what topics give as their
    `cleanup.policy`; ``archive`` is taken by the installed one, so each further archive needs
    another.
    """

    def __init__(
        self, uri: str | Path | None = None, *, filesystem: FileSystem | None = None, name: str = "archive"
    ) -> None:
        self.name = name
        self._uri = None if uri is None else str(uri)
        self._filesystem = filesystem
        self._delete = DeletePolicy()

    def plan(self, log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Drop | None:
        """Raises SettingError: nobody has said where the archive is; so nothing is deleted."""
        uri = self._uri or os.environ.get(VARIABLE)
        if not uri:
            raise SettingError(
                f"nobody has said where the archive is: set {VARIABLE}, or pass ArchivePolicy(uri) to the broker"
            )
        drop = self._delete.plan(log, groups, config, now_ms)
        if drop is None:
            return None
        return replace(drop, why=f"{drop.why}, archived", before_delete=Archive(uri, self._filesystem))


ARCHIVE = ArchivePolicy()
