"""The fields of a reset's form, and the plan that its preview sends back to be applied."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kqueue.admin.offset_reset import PlannedOffset, ResetKind, ResetTarget
from kqueue.client import ClusterMetadata, TopicPartition

PLAN_CHARACTERS_MAX = 1_000_000
PARTITIONS_MAX = 10_000
NUMBER_CHARACTERS_MAX = 19
KINDS = (
    (ResetKind.EARLIEST, "the oldest record"),
    (ResetKind.LATEST, "the end: only new records are read"),
    (ResetKind.TIME, "the first record of a time or later"),
    (ResetKind.OFFSET, "an offset; -N: N records before the end"),
    (ResetKind.SHIFT, "so many records forward, or back if negative"),
)


@dataclass(frozen=True, slots=True)
class ResetFields:
    """What a form says, as text. `topic`: "": all partitions that the group has."""

    topic: str = ""
    partitions: str = ""
    kind: str = ResetKind.EARLIEST.value
    time: str = ""
    offset: str = ""
    shift: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> ResetFields:
        """Return the fields of an address; missing ones have their defaults."""
        names = ("topic", "partitions", "kind", "time", "offset", "shift")
        return cls(**{name: query[name].strip() for name in names if name in query})

    def target(self) -> ResetTarget:
        """Return where to move the offsets. Raises: ValueError: a field that is not valid."""
        try:
            kind = ResetKind(self.kind)
        except ValueError:
            raise ValueError("Choose where to move the offsets to.") from None
        if kind is ResetKind.OFFSET:
            return ResetTarget(kind, _number(self.offset, "the offset"))
        if kind is ResetKind.SHIFT:
            return ResetTarget(kind, _number(self.shift, "the number of records"))
        if kind is ResetKind.TIME:
            return ResetTarget(kind, parse_utc_ms(self.time))
        return ResetTarget(kind)

    def selected(self, known: Iterable[TopicPartition], metadata: ClusterMetadata) -> list[TopicPartition]:
        """Return the partitions to reset.

        Args:
            known: the partitions of which the group has a position.
        Raises: ValueError: there is no such topic or partition, or none to reset.
        """
        if not self.topic:
            if self.partitions:
                raise ValueError("Choose a topic to name partitions of it.")
            partitions = sorted(known)
            if not partitions:
                raise ValueError("The group has committed nothing: choose a topic.")
            return partitions
        topic = metadata.topics.get(self.topic)
        if topic is None:
            raise ValueError(f"There is no topic {self.topic!r}.")
        if not self.partitions:
            return topic.topic_partitions
        numbers = [text.strip() for text in self.partitions.split(",")]
        if not all(_is_decimal(text) and int(text) in topic.partitions for text in numbers):
            raise ValueError(
                f"Write partitions as numbers with commas, as in 0,2; {self.topic} has {len(topic.partitions)} of "
                f"them, from 0 on."
            )
        return [TopicPartition(self.topic, number) for number in sorted({int(text) for text in numbers})]


def parse_utc_ms(text: str) -> int:
    """Return milliseconds since 1970 of ISO text, which is of UTC unless it names a zone.

    Raises: ValueError.
    """
    try:
        moment = datetime.fromisoformat(text)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError(f"Write the time as 2026-01-31T12:00 (UTC); found {text[:40]!r}.") from None


def plan_text(plan: Iterable[PlannedOffset]) -> str:
    """Return a plan as the text of a hidden field: what is previewed is what is applied."""
    return json.dumps([[*planned.partition, planned.new] for planned in plan], separators=(",", ":"))


def read_plan(text: str) -> dict[TopicPartition, int]:
    """Return the new offsets of a plan's text. Raises: ValueError: it is not of `plan_text`."""
    invalid = ValueError("The plan of the reset can't be read. Make its preview again.")
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        raise invalid from None
    if not isinstance(rows, list) or not 0 < len(rows) <= PARTITIONS_MAX:
        raise invalid
    plan = {}
    for row in rows:
        match row:
            case [str(topic), int(partition), int(offset)] if 0 <= partition < 2**31 and 0 <= offset < 2**63:
                plan[TopicPartition(topic, partition)] = offset
            case _:
                raise invalid
    return plan


@dataclass(frozen=True, slots=True)
class PlanSums:
    """What a plan changes in all partitions together. None: not known of some partition."""

    skipped: int | None
    read_again: int | None
    lag: int
    changed: int

    @classmethod
    def of(cls, plan: Sequence[PlannedOffset]) -> PlanSums:
        """Return the sums of a plan."""
        return cls(
            _sum([planned.skipped for planned in plan]),
            _sum([planned.read_again for planned in plan]),
            sum(planned.lag for planned in plan),
            sum(planned.new != planned.current for planned in plan),
        )


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _number(text: str, what: str) -> int:
    digits = text.removeprefix("-")
    if not _is_decimal(digits):
        raise ValueError(f"Write {what} as a whole number; found {text[:40]!r}.")
    return int(text)


def _is_decimal(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= NUMBER_CHARACTERS_MAX
