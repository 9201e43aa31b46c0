"""Records of the tiered demo: numbered, of one size, and known from their number alone."""

from __future__ import annotations

import random
from collections.abc import Iterator

from kqueue.base.settings import MiB

VALUE_BYTES = 8_000
_NUMBER_BYTES = 12


class Readings:
    """Readings of a sensor that add up to about `size` bytes. The number of a reading says its
    partition: they take turns.
    """

    def __init__(self, size: int, partitions: int) -> None:
        self.count = max(size // VALUE_BYTES, 10 * partitions) // partitions * partitions
        self.partitions = partitions
        # Random, so that neither a codec nor a file system makes it smaller.
        self._noise = memoryview(random.Random(1).randbytes(MiB + VALUE_BYTES))

    def value(self, number: int) -> bytes:
        """Return the value of a reading."""
        at = number * 7919 % MiB
        return b"%0*d" % (_NUMBER_BYTES, number) + self._noise[at : at + VALUE_BYTES - _NUMBER_BYTES]

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield the partition and the value of each reading."""
        for number in range(self.count):
            yield number % self.partitions, self.value(number)


class ReadingsCheck:
    """Compares what is read with what was sent: each partition in order, each reading once.

    Attributes: next_offsets: of each partition, the next one expected; difference: the first one
        found, as half a sentence.
    """

    def __init__(self, readings: Readings) -> None:
        self.next_offsets = [0] * readings.partitions
        self.difference: str | None = None
        self._readings = readings

    @property
    def count(self) -> int:
        """Readings that were as expected."""
        return sum(self.next_offsets)

    def note(self, partition: int, offset: int, value: bytes | None) -> None:
        """Compare one record."""
        expected = self.next_offsets[partition]
        self.next_offsets[partition] = expected + 1
        number = expected * self._readings.partitions + partition
        if self.difference is None and (offset, value) != (expected, self._readings.value(number)):
            self.difference = f"offset {offset} of partition {partition} is not reading {number}"
