"""`cleanup.policy=archive`: what has expired goes to Parquet before it is deleted, in a folder or
an object store.
"""

from __future__ import annotations

from kqueue_cleanup_archive.archive import Archive, ArchiveFailed
from kqueue_cleanup_archive.policy import ARCHIVE, ArchivePolicy

__all__ = ["ARCHIVE", "Archive", "ArchiveFailed", "ArchivePolicy"]
