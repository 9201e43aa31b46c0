"""The public checker of cleanup policies: whoever writes one runs it in his tests."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace

from kqueue.base.settings import Catalog, Config, TopicConfig
from kqueue.log import config as log_config
from kqueue.log.policies.contract import CleanupPolicy, Compact, Drop, LogView, SegmentView
from kqueue.records.batch import Record

_NOW_MS = 1_700_000_000_000
_DAY_MS = 86_400_000
_SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"retention.ms": "3600000", "retention.bytes": "5000"},
    {"retention.ms": "-1", "min.cleanable.dirty.ratio": "0", "max.compaction.lag.ms": "1000"},
    {"retention.ms": "0", "retention.bytes": "0", "kqueue.consumed.groups": "g1,g2"},
)


def check_policy(policy: CleanupPolicy, *, seed: int = 1, settings: Mapping[str, str] | None = None) -> None:
    """Check that `policy` keeps the contract in `kqueue.log.policies.contract`, over a few hundred made-up logs.

    It returns plans and nothing else, raises nowhere, says the same of the same log, comes to an end of dropping once its drops are
    carried out, and its record filter can go to another process. `settings`: of the topic, on top of those that are tried.
    Raises AssertionError: says which promise was broken, and with what.
    """
    rng = random.Random(seed)
    assert isinstance(policy.name, str), f"a name is text, found {policy.name!r}"
    assert policy.name == policy.name.strip().lower() != "", f"a name is written in small letters, and not empty: {policy.name!r}"
    assert "," not in policy.name, f"a name stands in a list, so it has no comma: {policy.name!r}"
    catalog = Catalog(log_config.SETTINGS)
    for own in _SETTINGS:
        config = Config(catalog).for_topic({**own, **(settings or {})})
        for log in _logs(rng):
            _check_log(policy, log, _Groups(rng), config)


def _check_log(policy: CleanupPolicy, log: LogView, groups: _Groups, config: TopicConfig) -> None:
    for _ in range(len(log.segments) + 2):
        plan = _ask(policy, log, groups, config)
        if isinstance(plan, Compact):
            _check_compact(policy, plan)
            return
        if plan is None:
            return
        assert type(plan.before_offset) is int, f"{policy.name}: an offset is an int, found {plan.before_offset!r}"
        assert plan.before_offset >= 0, f"{policy.name}: an offset is not negative, found {plan.before_offset}"
        assert plan.why, f"{policy.name}: a drop says why, for the log line"
        log, changed = _after(log, plan)
        if not changed:
            return
    raise AssertionError(f"{policy.name}: wanted drops without end of a log of {len(log.segments)} segments")


def _ask(policy: CleanupPolicy, log: LogView, groups: _Groups, config: TopicConfig) -> Drop | Compact | None:
    found = []
    for _ in range(2):
        try:
            found.append(policy.plan(log, groups, config, _NOW_MS))
        except Exception as error:
            raise AssertionError(f"{policy.name}: plan raised {error!r} for {log}") from error
    plan, again = found
    if plan is not None and not isinstance(plan, (Drop, Compact)):
        raise AssertionError(f"{policy.name}: a plan is Drop, Compact or None, found {plan!r} for {log}")
    same = (type(plan) is type(again)) and (not isinstance(plan, Drop) or plan == again)
    assert same, f"{policy.name}: the same log brought {plan!r} first and {again!r} then"
    return plan


def _check_compact(policy: CleanupPolicy, plan: Compact) -> None:
    assert plan.upto_offset is None or type(plan.upto_offset) is int, f"{policy.name}: upto_offset is an int, found {plan.upto_offset!r}"
    if plan.keep is None:
        return
    try:
        keep = pickle.loads(pickle.dumps(plan.keep))
    except Exception as error:
        raise AssertionError(f"{policy.name}: its record filter can't go to another process: {error!r}") from error
    for record in _records():
        answers = plan.keep(record), keep(record)
        assert all(isinstance(answer, bool) for answer in answers), f"{policy.name}: the filter says True or False, found {answers}"
        assert answers[0] == answers[1], f"{policy.name}: the filter says {answers[0]} here and {answers[1]} elsewhere of {record}"


def _after(log: LogView, drop: Drop) -> tuple[LogView, bool]:
    """The log once the broker has carried the drop out, and whether it has changed."""
    segments = log.segments
    end_offset = segments[-1].end_offset
    if drop.roll_active and segments[-1].size and end_offset <= min(drop.before_offset, log.high_watermark):
        active = SegmentView(end_offset, end_offset, 0, -1, True, _NOW_MS)
        segments = (*segments[:-1], segments[-1]._replace(is_active=False), active)
    bound = min(drop.before_offset, log.high_watermark)
    left = tuple(segment for segment in segments if segment.is_active or segment.end_offset > bound)
    start = max(log.start_offset, left[0].base_offset)
    changed = len(left) != len(log.segments) or left[0] != log.segments[0]
    return replace(log, segments=left, start_offset=start, first_dirty=max(log.first_dirty, start)), changed


class _Groups:
    """Groups g1 to g3, some of which have committed something."""

    def __init__(self, rng: random.Random) -> None:
        self._offsets = {f"g{number}": rng.choice((None, 0, rng.randrange(500))) for number in (1, 2, 3)}

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        return self._offsets.get(group)


def _logs(rng: random.Random) -> Iterator[LogView]:
    yield LogView("t", 0, (SegmentView(0, 0, 0, -1, True, _NOW_MS),), 0, 0, 0, 0)
    for _ in range(60):
        yield _log(rng)


def _log(rng: random.Random) -> LogView:
    base = rng.choice((0, rng.randrange(100)))
    time_ms = _NOW_MS - rng.randrange(30 * _DAY_MS)
    count = rng.randint(1, 8)
    segments = []
    for number in range(count):
        active = number == count - 1
        size = rng.choice((0, rng.randrange(1, 4000))) if active else rng.randrange(4000)
        end_offset = base + (rng.randrange(1, 50) if size or not active else 0)
        greatest = rng.choice((-1, time_ms)) if size else -1
        segments.append(SegmentView(base, end_offset, size, greatest, active, time_ms, rng.choice((-1, greatest))))
        base = end_offset
        time_ms += rng.randrange(-_DAY_MS, 5 * _DAY_MS)
    start = rng.randint(segments[0].base_offset, segments[0].end_offset)
    high = rng.choice((base, rng.randint(start, base)))
    stable = rng.choice((high, rng.randint(start, high)))
    return LogView("t", rng.randrange(3), tuple(segments), start, high, stable, rng.randint(start, base))


def _records() -> Iterator[Record]:
    for number, (key, value) in enumerate(((None, b"v"), (b"", b""), (b"key", b"value"), (b"key", None), (b"\xff\x00", b"{}"))):
        yield Record(number, _NOW_MS + number, key, value)
