"""Values that transactions have written and that no end marker has decided yet."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

P = TypeVar("P", bound=Hashable)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _PendingValue(Generic[V]):
    """A value; `number`: its position in the order of writes; `superseded`: a newer one counts."""

    __slots__ = ("number", "superseded", "value")

    def __init__(self, number: int, value: V) -> None:
        self.number = number
        self.value = value
        self.superseded = False


class _Transaction(Generic[K, V]):
    """The pending values of one producer's open transaction."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: dict[K, _PendingValue[V]] = {}


class CompletedValue(NamedTuple, Generic[K, V]):
    """A value whose transaction ended; `is_current`: committed, and no newer one was written."""

    key: K
    value: V
    is_current: bool


class OpenTransactions(Generic[P, K, V]):
    """The pending values of all open transactions: producer -> key -> value.

    The latest write of a key counts: a transaction that commits does not replace a value written
    after its own, be it without a transaction or by one that committed earlier. Calls must come in
    the order of the log. Source: Kafka OffsetMetadataManager, which compares record offsets.
    """

    __slots__ = ("_by_key", "_by_producer", "_number")

    def __init__(self) -> None:
        self._by_producer: dict[P, _Transaction[K, V]] = {}
        self._by_key: dict[K, list[_Transaction[K, V]]] = {}
        self._number = 0

    def __contains__(self, key: K) -> bool:
        """Return whether a transaction that wrote `key` is open, or its completion unfinished."""
        return key in self._by_key

    def __bool__(self) -> bool:
        """Return whether anything is pending."""
        return bool(self._by_key)

    def add(self, producer: P, key: K, value: V) -> V | None:
        """Add a write of a producer's open transaction; return the pending value it replaces."""
        transaction = self._by_producer.get(producer)
        if transaction is None:
            transaction = self._by_producer[producer] = _Transaction()
        former = transaction.values.get(key)
        self._number += 1
        transaction.values[key] = _PendingValue(self._number, value)
        if former is not None:
            return former.value
        self._by_key.setdefault(key, []).append(transaction)
        return None

    def find(self, producer: P, key: K) -> V | None:
        """Return the pending value of `key` in a producer's open transaction; None: none."""
        transaction = self._by_producer.get(producer)
        pending = None if transaction is None else transaction.values.get(key)
        return None if pending is None else pending.value

    def supersede(self, key: K) -> None:
        """Record a write of `key` without a transaction: no pending value will replace it.

        The key stays pending until the markers are there.
        """
        for transaction in self._by_key.get(key, ()):
            transaction.values[key].superseded = True

    def discard(self, key: K) -> list[V]:
        """Remove the pending values of a deleted key, and return them."""
        return [transaction.values.pop(key).value for transaction in self._by_key.pop(key, ())]

    def complete(self, producer: P, *, committed: bool) -> Iterator[CompletedValue[K, V]]:
        """End a producer's transaction now; return an iterator over its values.

        A value stays pending until the iterator returns it: the caller may take its time, and
        writes between two steps supersede values that are still to come.
        """
        transaction = self._by_producer.pop(producer, None)
        return iter(()) if transaction is None else self._drain(transaction, committed)

    def _drain(self, transaction: _Transaction[K, V], committed: bool) -> Iterator[CompletedValue[K, V]]:
        while transaction.values:
            key, pending = transaction.values.popitem()
            others = self._by_key[key]
            others.remove(transaction)
            if not others:
                del self._by_key[key]
            is_current = committed and not pending.superseded
            if is_current:
                for other in others:
                    if other.values[key].number < pending.number:
                        other.values[key].superseded = True
            yield CompletedValue(key, pending.value, is_current)

    def pending(self) -> list[tuple[P, K, V, bool]]:
        """Return (producer, key, value, superseded) of all open transactions in order of writes."""
        ordered = sorted(
            (pending.number, producer, key, pending)
            for producer, transaction in self._by_producer.items()
            for key, pending in transaction.values.items()
        )
        return [(producer, key, pending.value, pending.superseded) for _, producer, key, pending in ordered]
