"""Results of comparing pairs of types, each compared once, of which one may be within itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Generic, TypeVar

from kqueue.schema_registry.schemas.limits import ComparisonBudget

T = TypeVar("T")
_SETTLED = 1 << 30


class PairMemo(Generic[T]):
    """Remembers the results of one comparison: tuples of reasons, empty if a pair is compatible.

    A pair that meets itself again counts as compatible there, as it adds no reason of its own. A
    result that relies on that is provisional: it is forgotten if the pair proves incompatible, and
    computed again where it is needed.
    """

    def __init__(self, budget: ComparisonBudget) -> None:
        self._budget = budget
        self._known: dict[tuple[int, int], tuple[tuple[T, ...], int]] = {}
        self._open: dict[tuple[int, int], int] = {}
        self._provisional: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._lowest = _SETTLED

    def result(self, reader: object, writer: object, compute: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
        """Return the reasons of a pair, which `compute` returns if they are not known.

        Both objects have to live as long as this one. Raises: ComparisonTooLarge.
        """
        pair = id(reader), id(writer)
        if pair in self._known:
            known, relies_on = self._known[pair]
            self._lowest = min(self._lowest, relies_on)
            return known
        if pair in self._open:
            self._lowest = min(self._lowest, self._open[pair])
            return ()
        depth = len(self._open)
        self._open[pair] = depth
        before, self._lowest = self._lowest, _SETTLED
        with self._budget.level():
            found = compute()
        del self._open[pair]
        relies_on = self._lowest if self._lowest < depth else _SETTLED
        self._settle(depth, pair, found, relies_on)
        self._lowest = min(before, relies_on)
        return found

    def _settle(self, depth: int, pair: tuple[int, int], found: tuple[T, ...], relies_on: int) -> None:
        """Keep the result of the pair at a depth, and those that rely on it, or forget these."""
        dependent = self._provisional.pop(depth, [])
        if found:
            for one in dependent:
                self._known.pop(one, None)
            relies_on = _SETTLED
        else:
            for one in dependent:
                if one in self._known:
                    self._known[one] = self._known[one][0], relies_on
            if relies_on != _SETTLED:
                self._provisional[relies_on] += [*dependent, pair]
        self._known[pair] = found, relies_on
