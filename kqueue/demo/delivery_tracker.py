"""Tracks sent and received flights, and finds all differences between them."""

from __future__ import annotations

import zlib
from array import array
from dataclasses import dataclass, field

from kqueue.demo.flights import Flight, row_of


@dataclass(slots=True)
class DeliveryTracker:
    """Counts missing, repeated, changed and reordered flights.

    Memory: per flight a checksum of four bytes and one byte, not the flight.
    """

    sent: int = 0
    sent_bytes: int = 0
    read: int = 0
    foreign: int = 0
    twice: int = 0
    changed: int = 0
    disordered: int = 0
    _checksums: array[int] = field(default_factory=lambda: array("I"))
    _seen: bytearray = field(default_factory=bytearray)
    _last_row: dict[bytes, int] = field(default_factory=dict)

    def note_sent(self, flight: Flight) -> None:
        """Record a sent flight; flights come in the order of their rows, from 0."""
        assert flight.row == self.sent
        self.sent += 1
        self.sent_bytes += len(flight.key) + len(flight.value)
        self._checksums.append(zlib.crc32(flight.value, zlib.crc32(flight.key)))
        self._seen.append(0)

    def note_read(self, key: bytes | None, value: bytes | None) -> None:
        """Record a received record."""
        self.read += 1
        try:
            row = row_of(value or b"")
        except ValueError:
            row = -1
        if key is None or value is None or not 0 <= row < self.sent:
            self.foreign += 1
            return
        self.twice += self._seen[row]
        self._seen[row] = 1
        self.changed += zlib.crc32(value, zlib.crc32(key)) != self._checksums[row]
        self.disordered += self._last_row.get(key, -1) > row
        self._last_row[key] = row

    @property
    def keys(self) -> int:
        """The number of different keys received."""
        return len(self._last_row)

    @property
    def missing(self) -> int:
        """The number of flights that were sent and not received."""
        return self.sent - sum(self._seen)

    @property
    def complete(self) -> bool:
        """Whether each flight was received once and unchanged, and nothing else.

        The order does not count.
        """
        return not (self.missing or self.twice or self.changed or self.foreign)

    def differences(self) -> list[str]:
        """Return every difference between sent and received as half a sentence.

        Empty if there is none.
        """
        counts = {
            "were not read": self.missing,
            "were read more than once": self.twice,
            "came back changed": self.changed,
            "came out of order within their key": self.disordered,
        }
        differences = [f"{count:,} flights {words}" for words, count in counts.items() if count]
        return differences + ([f"{self.foreign:,} records are no flights"] if self.foreign else [])
