"""The problems that a dump found, and the summaries that Kafka's tool prints at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

PAIRS_MAX = 100_000  # per list and file; bounds the memory for a compacted log


class MismatchList:
    """Pairs of numbers: the first `PAIRS_MAX`, and in `left_out` the count of the others."""

    def __init__(self) -> None:
        self.pairs: list[tuple[int, int]] = []
        self.left_out = 0

    def add(self, first: int, second: int) -> None:
        """Add a pair, or count it."""
        if len(self.pairs) < PAIRS_MAX:
            self.pairs.append((first, second))
        else:
            self.left_out += 1


class Problems:
    """The problems of all files of a dump.

    Args:
        complain: receives each sentence about damage as soon as it is found.

    `wrong` says whether anything is damaged. Some entries of Kafka's lists are no damage: offset
    gaps, which every compacted log has, and index entries of older Kafkas, which named the last
    offset of several messages or a record within a batch.
    """

    def __init__(self, complain: Callable[[str], object]) -> None:
        self.wrong = False
        self._complain = complain
        self._index: dict[str, MismatchList] = {}
        self._time: dict[str, MismatchList] = {}
        self._time_order: dict[str, MismatchList] = {}
        self._time_offsets: dict[str, MismatchList] = {}
        self._gaps: dict[str, MismatchList] = {}

    def complain(self, sentence: str) -> None:
        """Report damage in a sentence."""
        self.wrong = True
        self._complain(sentence)

    def index_mismatch(self, path: str, index_offset: int, log_offset: int, *, harmless: bool) -> None:
        """Add an offset index entry whose batch ends at another offset."""
        self._add(self._index, path, index_offset, log_offset, harmless)

    def time_mismatch(self, path: str, index_timestamp: int, log_timestamp: int) -> None:
        """Add a time index entry whose timestamp is not the batch's greatest."""
        self._add(self._time, path, index_timestamp, log_timestamp, False)

    def time_out_of_order(self, path: str, timestamp: int, previous: int) -> None:
        """Add a time index entry with a timestamp below the previous one."""
        self._add(self._time_order, path, timestamp, previous, False)

    def time_offset_not_found(self, path: str, index_offset: int, log_offset: int, *, harmless: bool) -> None:
        """Add a time index entry whose offset is not the last of a batch."""
        self._add(self._time_offsets, path, index_offset, log_offset, harmless)

    def gap(self, path: str, offset: int, following: int) -> None:
        """Add two successive records whose offsets are not consecutive."""
        self._add(self._gaps, path, offset, following, following > offset)

    def _add(self, table: dict[str, MismatchList], path: str, first: int, second: int, harmless: bool) -> None:
        self.wrong = self.wrong or not harmless
        table.setdefault(path, MismatchList()).add(first, second)

    def summary(self) -> Iterator[str]:
        """Return the lists as Kafka's tool prints them."""
        yield from _listed(self._index, "Mismatches in :", "  Index offset: {}, log offset: {}", newest_first=True)
        yield from _listed(self._time, "Found timestamp mismatch in :", "  Index timestamp: {}, log timestamp: {}")
        yield from _listed(
            self._time_order,
            "Found out of order timestamp in :",
            "  Index timestamp: {}, Previously indexed timestamp: {}",
        )
        yield from _listed(
            self._time_offsets,
            "The following indexed offsets are not found in :",
            "Indexed offset: {}, found log offset: {}",
        )
        yield from _listed(self._gaps, "Non-consecutive offsets in ", "  {} is followed by {}")


def _listed(table: dict[str, MismatchList], title: str, line: str, *, newest_first: bool = False) -> Iterator[str]:
    for path, mismatches in table.items():
        yield f"{title}{path}"
        yield from (line.format(*pair) for pair in (reversed(mismatches.pairs) if newest_first else mismatches.pairs))
        if mismatches.left_out:
            yield f"  and {mismatches.left_out} more"
