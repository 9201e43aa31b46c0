"""`cleanup.policy=archive`: writes expired segments to Parquet before the broker deletes them.

The archive is a folder or an object store.
"""

from __future__ import annotations

from kqueue_cleanup_archive.archive import Archive, ArchiveFailed
from kqueue_cleanup_archive.policy import ARCHIVE, ArchivePolicy

__all__ = ["ARCHIVE", "Archive", "ArchiveFailed", "ArchivePolicy"]
