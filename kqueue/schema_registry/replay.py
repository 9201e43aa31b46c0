"""The state as of the last record that was read, for one thread that applies and many that read."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kqueue.base import events
from kqueue.schema_registry.records import (
    MalformedRegistryRecord,
    RecordKey,
    RegistryRecord,
    UnknownKeyType,
    decode_record,
    encode_key,
)
from kqueue.schema_registry.state.registry_state import RegistryState

logger = logging.getLogger(__name__)


class Replay:
    """The state that the records up to one offset make. Thread: any; `apply` from one."""

    def __init__(self) -> None:
        self._state = RegistryState()
        self._offset = -1
        self._sizes: dict[RecordKey, int] = {}
        self._stored_bytes = 0
        self._other_keys: dict[RecordKey, set[bytes]] = {}
        self._changed = threading.Condition()

    @property
    def offset(self) -> int:
        """The offset of the last record that was applied; -1: none."""
        return self._offset

    @property
    def stored_bytes(self) -> int:
        """The bytes of the last values of all keys: what a compacted log holds."""
        return self._stored_bytes

    def growth(self, key: RecordKey, value: bytes | None) -> int:
        """Return by how much a record would change `stored_bytes`."""
        with self._changed:
            return len(value or b"") - self._sizes.get(key, 0)

    @contextmanager
    def reading(self) -> Iterator[RegistryState]:
        """Lend the state, which does not change within the block. Blocks are short."""
        with self._changed:
            yield self._state

    def apply(self, offset: int, key: bytes | None, value: bytes | None, timestamp_ms: int = -1) -> None:
        """Take in the next record. One that is not understood is skipped, with a log line."""
        record = _understood(offset, key, value)
        with self._changed:
            if record is not None:
                self._state.apply(record, timestamp_ms)
                self._count(record.key, value)
                if key is not None and key != encode_key(record.key):
                    self._other_keys.setdefault(record.key, set()).add(key)
            self._offset = offset
            self._changed.notify_all()

    def _count(self, key: RecordKey, value: bytes | None) -> None:
        self._stored_bytes += self.growth(key, value)
        if value is None:
            self._sizes.pop(key, None)
        else:
            self._sizes[key] = len(value)

    def other_keys(self, key: RecordKey) -> list[bytes]:
        """Return the bytes of keys that mean this key and differ from those written here: of older
        registries, whose JSON has another order. Compaction takes them for other keys.
        """
        with self._changed:
            return sorted(self._other_keys.get(key, ()))

    def wait_for(self, offset: int, timeout_s: float) -> bool:
        """Wait until the record of an offset is applied; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._offset >= offset, timeout_s)


def _understood(offset: int, key: bytes | None, value: bytes | None) -> RegistryRecord | None:
    try:
        return decode_record(key, value)
    except UnknownKeyType as error:
        reason = f"keytype {str(error.args[0])[:100]!r} is unknown"
    except MalformedRegistryRecord as error:
        reason = str(error)
    events.REGISTRY_RECORD_SKIPPED.log(
        logger, "skipped the record at offset %s of the schemas: %s", offset=offset, reason=reason
    )
    return None
