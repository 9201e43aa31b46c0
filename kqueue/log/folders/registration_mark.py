"""The mark of a data folder's last registrations with its cluster: `.kqueue_registration`.

    {"version":0,"committed":[epoch,"text",renewal],"pending":[epoch,"text",renewal]}

Each registration has a stamp: its broker epoch, and a text that no other registration has. It is
renewed while records are appended, so that a copy of a folder in use is told from the original. The
metadata store keeps the stamp of a broker's last registration, and each of its data folders has it
here. A folder with another stamp is not the one that took part last: it is an older copy, or the
store is one. `compare_marks` tells which.

A registration, and each renewal, writes the mark twice:

    1. committed = the store's stamp, pending = the new one      before the commit
    2. the commit puts the new stamp into the store
    3. committed = the new stamp, no pending one                 after the commit

Durability: a crash between the steps leaves a mark that holds the store's stamp, whether or not
the commit happened, so no folder is taken for a copy by it. Between 2 and 3 the stamp before is
accepted too.
"""

from __future__ import annotations

import enum
import json
import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kqueue.base import events
from kqueue.base.errors import CorruptIndex, DiskFull, StorageFailed
from kqueue.log.formats import checkpoints
from kqueue.storage import Storage

REGISTRATION_MARK = ".kqueue_registration"
VERSION = 0
NO_ORDER = (-1, 0)
"""Before that of any stamp."""
logger = logging.getLogger("kqueue.log")


class RegistrationStamp(NamedTuple):
    """A registration, or its renewal.

    Attributes:
        epoch: the broker epoch.
        text: of no other registration, and of no other renewal.
        renewal: its number within the epoch; 0: the registration.
    """

    epoch: int
    text: str
    renewal: int = 0

    @property
    def order(self) -> tuple[int, int]:
        """A number that is greater in a later stamp of one history of the store."""
        return self.epoch, self.renewal


class RegistrationMark(NamedTuple):
    """The mark. `committed`: the store had it. `pending`: may be in the store. None: none."""

    committed: RegistrationStamp | None = None
    pending: RegistrationStamp | None = None

    def holds(self, stamp: RegistrationStamp) -> bool:
        """Whether the folder took part in this registration."""
        return any(one is not None and one.text == stamp.text for one in self)


class Comparison(enum.Enum):
    """The outcomes of the comparison of the marks of a broker's data folders with the store."""

    SAME = "same"
    OLDER_FOLDER = "older folder"
    OLDER_STORE = "older store"


def compare_marks(stored: RegistrationStamp | None, marks: Iterable[RegistrationMark]) -> Comparison:
    """Return how the data folders' marks compare with the stamp that the store has; None: it has
    none.

    A folder that knows a later registration than the store goes before one that knows an earlier.
    """
    others = [mark for mark in marks if stored is None or not mark.holds(stored)]
    known = max((mark.committed.order for mark in others if mark.committed is not None), default=NO_ORDER)
    if known > (NO_ORDER if stored is None else stored.order):
        return Comparison.OLDER_STORE
    return Comparison.OLDER_FOLDER if others and stored is not None else Comparison.SAME


def read_registration_mark(storage: Storage) -> RegistrationMark:
    """Return the mark; an empty one where there is none, or where it can't be read, with an ERROR.

    Raises: StorageFailed.
    """
    if not storage.exists(REGISTRATION_MARK):
        return RegistrationMark()
    try:
        return _decode(checkpoints.read_small_file(storage, REGISTRATION_MARK))
    except CorruptIndex as error:
        events.CHECKPOINT_DAMAGED.log(logger, "%s: %s; going on without it", location=storage.location, error=error)
        return RegistrationMark()


def write_registration_mark(storage: Storage, mark: RegistrationMark, make_room: Callable[[], bool]) -> None:
    """Write the mark. Blocks. Thread: any. Durability: on return; a crash leaves the old or the
    new one. Raises StorageFailed.

    Args: make_room: called if the disk is full. True: there is room now, write again.
    """
    data = _encode(mark)
    try:
        try:
            storage.write_atomic(REGISTRATION_MARK, data)
        except DiskFull:
            if not make_room():
                raise
            storage.write_atomic(REGISTRATION_MARK, data)
    except FileNotFoundError as error:
        raise StorageFailed(f"{storage.location}: {REGISTRATION_MARK} can't be written: {error}") from error


def _encode(mark: RegistrationMark) -> bytes:
    return json.dumps({"version": VERSION, **mark._asdict()}, separators=(",", ":")).encode()


def _decode(data: bytes) -> RegistrationMark:
    try:
        values = json.loads(data)
        if values["version"] != VERSION:
            raise ValueError(f"expected version {VERSION}, found {values['version']}")
        return RegistrationMark(_stamp(values["committed"]), _stamp(values["pending"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptIndex(f"{REGISTRATION_MARK} can't be read: {error!r}") from error


def _stamp(value: Any) -> RegistrationStamp | None:
    if value is None:
        return None
    epoch, text, renewal = value
    return RegistrationStamp(int(epoch), str(text), int(renewal))
