"""The books of the demo: what was sent, what came back, and every way in which the two could
differ.
"""

from __future__ import annotations

import zlib
from array import array
from dataclasses import dataclass, field

from kqueue.demo.flights import Flight, row_of


@dataclass(slots=True)
class DeliveryTracker:
    """Told of each flight sent and of each record read; knows what is missing, twice, changed or
    out of order.

    Of each flight it keeps four bytes of checksum and one mark, not the flight.
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
        """Flights come in the order of their rows, from 0."""
        assert flight.row == self.sent
        self.sent += 1
        self.sent_bytes += len(flight.key) + len(flight.value)
        self._checksums.append(zlib.crc32(flight.value, zlib.crc32(flight.key)))
        self._seen.append(0)

    def note_read(self, key: bytes | None, value: bytes | None) -> None:
        """A record came back from the broker."""
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
        """How many different keys came back."""
        return len(self._last_row)

    @property
    def missing(self) -> int:
        """How many flights were sent and have not come back."""
        return self.sent - sum(self._seen)

    @property
    def complete(self) -> bool:
        """Whether each flight came back once and unchanged, and nothing else did; the order is
        another matter.
        """
        return not (self.missing or self.twice or self.changed or self.foreign)

    def differences(self) -> list[str]:
        """Half sentences, one for each way in which what came back differs from what was sent;
        empty when all is well.
        """
        found = {
            "were not read": self.missing,
            "were read more than once": self.twice,
            "came back changed": self.changed,
            "came out of order within their key": self.disordered,
        }
        differences = [f"{count:,} flights {words}" for words, count in found.items() if count]
        return differences + ([f"{self.foreign:,} records are no flights"] if self.foreign else [])
