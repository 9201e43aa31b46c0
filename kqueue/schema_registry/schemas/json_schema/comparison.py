"""The comparison of two JSON Schemas: what all kinds of schemas share.

A comparison collects the incompatible differences only; `DifferenceList` drops the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kqueue.schema_registry.schemas.json_schema.differences import COMPATIBLE, Difference
from kqueue.schema_registry.schemas.json_schema.views import SchemaView, SchemaViews
from kqueue.schema_registry.schemas.limits import INCOMPATIBILITIES_MAX, ComparisonBudget
from kqueue.schema_registry.schemas.pair_memo import PairMemo

Differences = tuple[Difference, ...]


class DifferenceList:
    """Collects the incompatible differences of a pair, up to `INCOMPATIBILITIES_MAX`."""

    def __init__(self) -> None:
        self._differences: list[Difference] = []

    def add(self, kind: str, *path: str) -> None:
        """Add a difference, unless it is a compatible one."""
        if kind not in COMPATIBLE and len(self._differences) < INCOMPATIBILITIES_MAX:
            self._differences.append(Difference(kind, path))

    def include(self, differences: Differences, *path: str) -> None:
        """Add those of a pair that is at a path below this one."""
        room = INCOMPATIBILITIES_MAX - len(self._differences)
        self._differences += [Difference(one.kind, (*path, *one.path)) for one in differences[:room]]

    def bound(self, keyword: str, kind: str, original: Any, update: Any) -> None:
        """Add how a number changed that limits values. None: there is no limit."""
        if original == update:
            return
        if original is None:
            self.add(f"{kind}_ADDED", keyword)
        elif update is None:
            self.add(f"{kind}_REMOVED", keyword)
        else:
            self.add(f"{kind}_INCREASED" if original < update else f"{kind}_DECREASED", keyword)

    def result(self) -> Differences:
        """Return what was added."""
        return tuple(self._differences)


CompareKind = Callable[["SchemaComparison", SchemaView, SchemaView, DifferenceList], None]


class SchemaComparison:
    """One comparison of two schemas.

    Args:
        by_kind: what compares two schemas of the same kind; kinds that are missing have no parts.
        mirror: the same comparison the other way round, with which it shares its budget.
    """

    def __init__(
        self,
        original: SchemaViews,
        update: SchemaViews,
        by_kind: Mapping[str, CompareKind],
        mirror: SchemaComparison | None = None,
    ) -> None:
        self.original = original
        self.update = update
        self.budget: ComparisonBudget = ComparisonBudget() if mirror is None else mirror.budget
        self._by_kind = by_kind
        self._memo: PairMemo[Difference] = PairMemo(self.budget)
        self._mirror = mirror

    def compare(self, original: SchemaView | None, update: SchemaView | None) -> Differences:
        """Return the incompatible differences. None: there is no schema.

        Raises: ComparisonTooLarge.
        """
        if original is None or update is None:
            if original is update or update is None:
                return ()
            return (Difference("SCHEMA_ADDED", ()),)
        return self._memo.result(original, update, lambda: self._compare(original, update))

    def reversed(self, original: SchemaView, update: SchemaView) -> Differences:
        """Return the differences of a comparison the other way round: of what must not match."""
        if self._mirror is None:
            self._mirror = SchemaComparison(self.update, self.original, self._by_kind, mirror=self)
        return self._mirror.compare(update, original)

    def _compare(self, original: SchemaView, update: SchemaView) -> Differences:
        if original.is_combined != update.is_combined and self._is_member(original, update):
            return ()
        differences = DifferenceList()
        if original.kind == update.kind or (original.is_combined and update.is_combined):
            compare = self._by_kind.get(update.kind)
            if compare is not None:
                compare(self, original, update, differences)
        elif not (original.kind == "false" or update.is_empty or _are_bytes(original, update)):
            differences.add("TYPE_CHANGED")
        return differences.result()

    def _is_member(self, original: SchemaView, update: SchemaView) -> bool:
        """Return whether one of two schemas is combined, and a member of it is compatible with the
        other, so that the whole is.
        """
        combined = update if update.is_combined else original
        if len(combined.members) > 1 and (combined.kind == "allOf") is (combined is update):
            return False
        for member in combined.members:
            pair = (original, member) if combined is update else (member, update)
            if not self.compare(*pair):
                return True
        return False


def _are_bytes(original: SchemaView, update: SchemaView) -> bool:
    """Return whether both are bytes of Kafka Connect, which writes them as one type or another."""
    return original.keywords.get("connect.type") == update.keywords.get("connect.type") == "bytes"
