"""Public contract checks for cleanup policies, to be run in the tests of a policy plugin."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar, cast

from kqueue.base.config import Config, TopicConfig
from kqueue.base.settings import Catalog
from kqueue.log import config as log_config
from kqueue.log.policies.contract import CleanupPolicy, Compact, Drop
from kqueue.log.views import LogView, SegmentView
from kqueue.records.batch import Record
from kqueue.testing.contract_checks import Check, Checks, ContractTrial
from kqueue.testing.isolation import check_contract

_T = TypeVar("_T")
_NOW_MS = 1_700_000_000_000
_DAY_MS = 86_400_000
_SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"retention.ms": "3600000", "retention.bytes": "5000"},
    {"retention.ms": "-1", "min.cleanable.dirty.ratio": "0", "max.compaction.lag.ms": "1000"},
    {"retention.ms": "0", "retention.bytes": "0", "kqueue.consumed.groups": "g1,g2"},
)


def check_cleanup_policy(
    policy: CleanupPolicy | str,
    *,
    seed: int = 1,
    settings: Mapping[str, str] | None = None,
    time_limit_s: float = 60,
    isolated: bool = True,
) -> None:
    """Check that a cleanup policy meets the contract in `kqueue.log.policies.contract`.

    Calls `plan` for several hundred generated logs, and for the logs that remain after its drops.
    The policy must return valid plans, raise no error and be deterministic. Its record filters and
    its work before a drop must be picklable.

    Args:
        policy: the registered object, or its ``module:object`` path.
        seed: seeds the generated logs.
        settings: topic settings, added to each set of settings that is tried.
        time_limit_s: limit for all checks together, in seconds.
        isolated: False runs the checks in this process, without a time limit, for objects that
            cannot be pickled.
    Raises:
        AssertionError: a check failed; the message names the check, the call and the result.
        TypeError: `policy` cannot be sent to another process.
    """
    options = {"seed": seed, "settings": dict(settings or {})}
    check_contract(POLICY_CHECKS, policy, options, time_limit_s=time_limit_s, isolated=isolated)


class _Case(NamedTuple):
    """The arguments of one call of `plan`."""

    log: LogView
    groups: _Groups
    config: TopicConfig


_PolicyTrial = ContractTrial[CleanupPolicy]


def _check_name(trial: _PolicyTrial) -> None:
    name = trial.plugin.name
    assert isinstance(name, str), f"name must be a str, found {name!r}"
    assert name == name.strip().lower() != "", f"name must be lower case and not empty, found {name!r}"
    assert "," not in name, f"name must have no comma, as cleanup.policy is a list; found {name!r}"


def _check_plans(trial: _PolicyTrial) -> None:
    for case in _cases(trial):
        _check_plan(_ask(trial, case), case.log)


def _check_plan(plan: object, log: LogView) -> None:
    if plan is None:
        return
    if isinstance(plan, Compact):
        upto = plan.upto_offset
        assert upto is None or type(upto) is int, f"upto_offset must be an int or None, found {upto!r} for {log}"
    elif isinstance(plan, Drop):
        assert type(plan.before_offset) is int, f"before_offset must be an int, found {plan.before_offset!r} for {log}"
        assert plan.before_offset >= 0, f"before_offset must not be negative, found {plan.before_offset} for {log}"
        assert plan.why, f"why must not be empty, as it is logged; found {plan!r} for {log}"
    else:
        raise AssertionError(f"plan must return Drop, Compact or None, found {plan!r} for {log}")


def _check_sameness(trial: _PolicyTrial) -> None:
    for case in _cases(trial):
        plan, again = _ask(trial, case), _ask(trial, case)
        same = (type(plan) is type(again)) and (not isinstance(plan, Drop) or _comparable(plan) == _comparable(again))
        assert same, f"plan gave {plan!r}, then {again!r} for the same log: {case.log}"


def _comparable(plan: object) -> object:
    """Return the plan without `before_delete`, which need not be comparable."""
    return replace(plan, before_delete=None) if isinstance(plan, Drop) else plan


def _check_after_drops(trial: _PolicyTrial) -> None:
    """Check the plans for the logs that remain after each of the policy's own drops."""
    for case in _cases(trial):
        log, changed = case.log, True
        while changed:
            plan = _ask(trial, case._replace(log=log))
            _check_plan(plan, log)
            if not isinstance(plan, Drop):
                break
            log, changed = _after(log, plan)


def _check_filters(trial: _PolicyTrial) -> None:
    for case in _cases(trial):
        plan = _ask(trial, case)
        if not isinstance(plan, Compact) or plan.keep is None:
            continue
        keep, keep_copy = plan.keep, _pickled(plan.keep, "record filter")
        for record in _records():
            answers = [
                trial.ask(f"the filter, of {record}", lambda run=run, record=record: run(record))  # type: ignore[misc]
                for run in (keep, keep_copy)
            ]
            assert all(isinstance(answer, bool) for answer in answers), (
                f"the filter must return a bool, found {answers} for {record}"
            )
            assert answers[0] == answers[1], (
                f"the filter returns {answers[0]}, and {answers[1]} after pickling, for {record}"
            )


def _check_before_delete(trial: _PolicyTrial) -> None:
    for case in _cases(trial):
        plan = _ask(trial, case)
        if isinstance(plan, Drop) and plan.before_delete is not None:
            assert callable(plan.before_delete), (
                f"before_delete must be callable, found {plan.before_delete!r} for {case.log}"
            )
            _pickled(plan.before_delete, "work before a drop")


def _pickled(value: _T, what: str) -> _T:
    """Return a copy of `value` as another process receives it, by pickling."""
    try:
        return cast(_T, pickle.loads(pickle.dumps(value)))
    except Exception as error:
        raise AssertionError(f"its {what} cannot be pickled: {error!r}") from error


def _ask(trial: _PolicyTrial, case: _Case) -> Drop | Compact | None:
    log, groups, config = case
    return trial.ask(f"plan for {log}", lambda: trial.plugin.plan(log, groups, config, _NOW_MS))


def _cases(trial: _PolicyTrial) -> Iterator[_Case]:
    """Generate the same logs for each check, with each set of settings."""
    rng = random.Random(trial.options["seed"])
    catalog = Catalog(log_config.SETTINGS)
    for own in _SETTINGS:
        config = Config(catalog).for_topic({**own, **trial.options["settings"]})
        for log in _logs(rng):
            yield _Case(log, _Groups(rng), config)


def _after(log: LogView, drop: Drop) -> tuple[LogView, bool]:
    """Return the log after the broker executed the drop, and whether it changed."""
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
    """Consumer groups g1 to g3, some with a committed offset."""

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
    for number, (key, value) in enumerate(
        ((None, b"v"), (b"", b""), (b"key", b"value"), (b"key", None), (b"\xff\x00", b"{}"))
    ):
        yield Record(number, _NOW_MS + number, key, value)


POLICY_CHECKS = Checks(
    "cleanup policy",
    (
        Check("its name is valid in cleanup.policy", _check_name),
        Check("its plans are valid", _check_plans),
        Check("plan is deterministic", _check_sameness),
        Check("its plans are valid for the logs that its drops leave", _check_after_drops),
        Check("its record filter returns the same in another process", _check_filters),
        Check("its work before a drop can be pickled", _check_before_delete),
    ),
)
