from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kqueue.log.policies import Drop, LogView
from kqueue.log.policies.delete import DeletePolicy
from kqueue.tests.log.policies.views import NOW_MS, Committed, settings, view
from kqueue.tests.tables import for_each


def plan(log: LogView, **own: str) -> Drop | None:
    return DeletePolicy().plan(log, Committed(), settings(**own), NOW_MS)


@for_each(
    "ages, before",
    [
        ([3000, 2000, 1000], None),
        ([5000, 2000, 1000], None),
        ([5001, 2000, 1000], 10),
        ([6000, 5500, 1000], 20),
        ([6000, 1000, 6000], 10),
        ([1000, 6000, 6000], None),
    ],
)
def test_segments_go_once_their_newest_record_is_too_old(ages: list[int], before: int | None) -> None:
    """S5.1: by age, the oldest first, none from the middle."""
    planned = plan(view([100, 100, 100], ages), retention_ms="5000")
    assert planned == (None if before is None else Drop(before, "retention.ms=5000"))


def test_the_active_segment_goes_too_when_all_of_it_is_too_old() -> None:
    """S5.1"""
    assert plan(view([100, 100], [6000, 6000]), retention_ms="5000") == Drop(20, "retention.ms=5000", roll_active=True)
    assert plan(view([100, 0], [6000, 6000]), retention_ms="5000") == Drop(10, "retention.ms=5000")
    assert plan(view([0], [6000]), retention_ms="5000") is None


@for_each(
    "sizes, before",
    [
        ([100, 100, 100], None),
        ([50, 100, 150], 10),
        ([51, 100, 149], None),
        ([1, 100, 250], 20),
        ([100, 100, 250], 20),
        ([100, 100, 249], 10),
        ([50, 50, 250], 20),
        ([50, 50, 249], 10),
        ([400, 100, 150], 10),
        ([400, 100, 149], None),
    ],
)
def test_size_retention_never_leaves_less_than_the_limit(sizes: list[int], before: int | None) -> None:
    """S5.1"""
    planned = plan(view(sizes), retention_bytes="250", retention_ms="-1")
    assert planned == (None if before is None else Drop(before, "retention.bytes=250"))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(0, 200))
def test_size_retention_leaves_the_least_that_is_allowed(sizes: list[int], limit: int) -> None:
    """S5.1"""
    planned = plan(view(sizes), retention_bytes=str(limit), retention_ms="-1")
    rest = sizes[planned.before_offset // 10 :] if planned is not None else sizes
    assert sum(rest) >= min(limit, sum(sizes))
    if len(rest) > 1 or (rest and rest[0]):
        assert sum(rest[1:]) < limit, "one more could have gone"


def test_a_limit_of_nothing_drops_everything() -> None:
    assert plan(view([10, 10]), retention_bytes="0", retention_ms="-1") == Drop(
        20, "retention.bytes=0", roll_active=True
    )


def test_the_tighter_limit_holds() -> None:
    log = view([100, 100, 100, 100], [6000, 0, 0, 0])
    assert plan(log, retention_ms="5000", retention_bytes="150") == Drop(20, "retention.bytes=150")
    assert plan(log, retention_ms="5000", retention_bytes="350") == Drop(10, "retention.ms=5000")


def test_without_limits_everything_stays() -> None:
    assert plan(view([100] * 5, [10**12] * 5), retention_ms="-1") is None


def test_nothing_goes_that_reaches_beyond_the_high_watermark() -> None:
    assert plan(view([100, 100, 100], [6000] * 3, high_watermark=19), retention_ms="5000") == Drop(
        10, "retention.ms=5000"
    )
    assert plan(view([100, 100, 100], high_watermark=5), retention_bytes="0") is None


def test_records_from_the_future_stay() -> None:
    assert plan(view([100, 100], [-5000, 6000]), retention_ms="1000") is None


# --- topics with a remote tier


def local_plan(log: LogView, **own: str) -> Drop | None:
    config = settings(**own)
    config.overrides["remote.storage.enable"] = True
    return DeletePolicy().plan(log, Committed(), config, NOW_MS)


@for_each(
    "limits, planned",
    [
        ({"retention_ms": "5000"}, Drop(20, "local.retention.ms=5000", local=True)),
        ({"retention_ms": "-1", "local_retention_ms": "5500"}, Drop(10, "local.retention.ms=5500", local=True)),
        ({"retention_ms": "5000", "local_retention_ms": "-1"}, None),
        ({"retention_ms": "-1", "retention_bytes": "150"}, Drop(10, "local.retention.bytes=150", local=True)),
        (
            {"retention_ms": "-1", "retention_bytes": "900", "local_retention_bytes": "90"},
            Drop(20, "local.retention.bytes=90", local=True),
        ),
        ({"retention_ms": "-1", "retention_bytes": "90", "local_retention_bytes": "-1"}, None),
    ],
)
def test_local_limits_or_else_the_topics_free_the_local_disk(limits: dict[str, str], planned: Drop | None) -> None:
    assert local_plan(view([100, 100, 100], [6000, 5200, 1000]), **limits) == planned


def test_an_active_segment_beyond_the_local_limit_is_rolled_to_be_copied() -> None:
    planned = local_plan(view([100, 100], [6000, 6000]), local_retention_ms="5000")
    assert planned == Drop(20, "local.retention.ms=5000", roll_active=True, local=True)


def test_the_topics_retention_holds_once_nothing_is_copied_any_more() -> None:
    limits = {"remote_log_copy_disable": "true", "retention_ms": "5000", "local_retention_ms": "1"}
    assert local_plan(view([100, 100], [6000, 1000]), **limits) == Drop(10, "retention.ms=5000")
