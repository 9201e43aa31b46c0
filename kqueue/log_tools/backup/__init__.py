"""Backups of data folders and of the metadata store, of brokers that run or are stopped.

    BACKUP/
        kqueue-backup.json      the manifest, written last: without it the backup is not complete
        folders/<name>/         a data folder: partitions, checkpoints, meta.properties
        store/<name>            the metadata store of a cluster on one machine (SQLite)

A copy of a running broker's folder is what a kill would leave at one moment, so a start recovers it
as after a kill. See `creation` for the moment, and `restoration` for what counts of a cluster's
member that is restored alone.
"""

from kqueue.log_tools.backup.creation import create_backup
from kqueue.log_tools.backup.manifest import BackupDamaged, BackupRefused, Manifest
from kqueue.log_tools.backup.restoration import restore_backup
from kqueue.log_tools.backup.verification import BackupReport, verify_backup

__all__ = [
    "BackupDamaged",
    "BackupRefused",
    "BackupReport",
    "Manifest",
    "create_backup",
    "restore_backup",
    "verify_backup",
]
