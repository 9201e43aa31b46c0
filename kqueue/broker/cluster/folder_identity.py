"""Tells whether a broker's data folders are those that took part in the cluster last.

    /folders/<node id>    {"epoch": broker epoch, "stamp": text of the last stamp, "renewal": n}

The record is committed together with the broker's registration, and outlives its removal. The
data folders have marks with the same stamp: see `kqueue.log.folders.registration_mark`.

    the marks         the broker
    same              may be in sync, and lead
    older than store  counts as one with empty data folders: it leaves the in-sync and eligible
                      sets, leads nothing that others can lead, and copies from them
    newer than store  does not start: the store would elect brokers that lack confirmed records,
                      and topics that it does not know would be taken for deleted

Before the record, or after a kqueue that did not write it has registered, nothing is compared:
that registration writes the record and the marks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from kqueue.base.errors import KqueueError, StorageFailed
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.log.folders.registration_mark import Comparison, RegistrationMark, RegistrationStamp, compare_marks
from kqueue.replication.registrations import BrokerRegistration

FOLDERS_PREFIX = "/folders/"


class OlderStore(KqueueError):
    """The metadata store is older than a data folder: it was put back from a copy."""


class FolderIdentity:
    """The marks of one broker's data folders, beside the stamp in the store.

    Args:
        marks: as the start found them, by id of the data folder; without those that are new.
        write: writes a mark into all data folders. Blocks; thread: any; raises StorageFailed.
        location: names the data folders in messages.
        has_partitions: whether the data folders hold any.
    Thread: owner thread, but `write`.
    """

    def __init__(
        self,
        node_id: int,
        metadata: MetadataCache,
        marks: Mapping[str, RegistrationMark],
        write: Callable[[RegistrationMark], None],
        location: str,
        has_partitions: bool = True,
    ) -> None:
        self.write = write
        self.key = f"{FOLDERS_PREFIX}{node_id}"
        self._node_id = node_id
        self._metadata = metadata
        self._marks = marks
        self._location = location
        self._has_partitions = has_partitions
        epochs = [mark.committed.epoch for mark in marks.values() if mark.committed is not None]
        self._marks_epoch = str(max(epochs)) if epochs else "none"

    @staticmethod
    def encode(stamp: RegistrationStamp) -> bytes:
        """Return the record for the store."""
        values = {"epoch": stamp.epoch, "stamp": stamp.text, "renewal": stamp.renewal}
        return json.dumps(values, separators=(",", ":")).encode()

    def stored(self) -> RegistrationStamp | None:
        """Return the stamp in the store; None: none. Raises StorageFailed: it is damaged."""
        record = self._metadata.get(self.key)
        if record is None:
            return None
        try:
            values = json.loads(record)
            return RegistrationStamp(int(values["epoch"]), str(values["stamp"]), int(values["renewal"]))
        except (ValueError, KeyError, TypeError) as error:
            raise StorageFailed(f"the metadata store is damaged: {self.key} can't be read: {error!r}") from error

    def compare(self, before: BrokerRegistration | None) -> Comparison:
        """Compare the marks with the store. Args: before: the broker's registration there."""
        stored = self.stored()
        if stored is not None and before is not None and stored.epoch != before.epoch:
            return Comparison.SAME  # a kqueue that writes no marks has registered since
        known = () if before is None else before.directories
        marks = [mark for id, mark in self._marks.items() if id in known or mark.committed is not None]
        return compare_marks(stored, marks)

    def check_store(self, before: BrokerRegistration | None) -> None:
        """Check that the store is not older than the data folders, unless these hold nothing.

        Raises: OlderStore.
        """
        if self._has_partitions and self.compare(before) is Comparison.OLDER_STORE:
            raise OlderStore(
                f"kqueue.cluster.store is older than the data of broker {self._node_id}: {self._location} took part "
                f"with broker epoch {self._marks_epoch}, and the store knows {self._stored_epoch()}. The store was put "
                "back from a copy, and may elect leaders without confirmed records: stop all brokers, and put back "
                "its newest state. If that is lost, see docs/clusters.md, Backups"
            )

    def marked(self, mark: RegistrationMark) -> None:
        """Note that all data folders have this mark now."""
        self._marks = dict.fromkeys(self._marks, mark)

    def trusted(self, before: BrokerRegistration | None) -> RegistrationStamp | None:
        """Return the stamp in the store, if the data folders have it; else None."""
        return self.stored() if self.compare(before) is Comparison.SAME else None

    def fallback(self, before: BrokerRegistration | None, stamp: RegistrationStamp) -> RegistrationStamp | None:
        """Return what to store where `stamp` could not be written into all data folders.

        The text that all of them have stays valid, so that the next start is not taken for one of
        an older copy. None: there is none.
        """
        trusted = self.trusted(before)
        if trusted is not None:
            return stamp._replace(text=trusted.text)
        return None if self.compare(before) is Comparison.SAME else stamp

    def describe_older_copy(self) -> str:
        """Return the line for the log."""
        return (
            f"the data of broker {self._node_id} in {self._location} is older than its last life in the cluster: it "
            f"took part with broker epoch {self._marks_epoch}, and the store knows {self._stored_epoch()}. Confirmed "
            "records may be missing, so it leads nothing that others can lead, and copies from them. If the newest "
            "data folders still exist, stop this broker before others follow it, and put them back"
        )

    def _stored_epoch(self) -> str:
        stored = self.stored()
        return "none" if stored is None else str(stored.epoch)
