from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.admin.offset_reset import PlannedOffset, ResetKind, ResetTarget
from kqueue.client import ClusterMetadata, PartitionMetadata, TopicMetadata, TopicPartition
from kqueue.console.groups.reset_form import PlanSums, ResetFields, parse_utc_ms, plan_text, read_plan
from kqueue.tests.tables import for_each

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
TOPIC = TopicMetadata("orders", bytes(16), {0: PartitionMetadata(1), 1: PartitionMetadata(1)})
CLUSTER = ClusterMetadata({}, {"orders": TOPIC})


def test_fields_are_read_from_an_address() -> None:
    assert ResetFields.read({}) == ResetFields(kind="earliest")
    fields = ResetFields.read({"topic": "orders", "kind": "offset", "offset": " 7 ", "other": "x"})
    assert (fields.topic, fields.target()) == ("orders", ResetTarget(ResetKind.OFFSET, 7))


def test_each_kind_has_its_target() -> None:
    assert ResetFields(kind="latest").target() == ResetTarget(ResetKind.LATEST)
    assert ResetFields(kind="shift", shift="-5").target() == ResetTarget(ResetKind.SHIFT, -5)
    assert ResetFields(kind="time", time="1970-01-01T00:01").target() == ResetTarget(ResetKind.TIME, 60_000)


@for_each("number", ["", "-", "1.5", "٣", "9" * 20, "1e3", "--1"])
def test_a_number_that_is_none_is_refused(number: str) -> None:
    with pytest.raises(ValueError, match="as a whole number"):
        ResetFields(kind="offset", offset=number).target()


def test_times_are_of_utc_unless_they_name_a_zone() -> None:
    assert parse_utc_ms("1970-01-01T01:00") == 3_600_000
    assert parse_utc_ms("1970-01-01T01:00+01:00") == 0
    for text in ("", "soon", "0001-01-01T00:00+14:00x"):
        with pytest.raises(ValueError, match="Write the time as 2026"):
            parse_utc_ms(text)


def test_all_partitions_of_the_group_or_chosen_ones_of_a_topic() -> None:
    assert ResetFields().selected([ONE, ZERO], CLUSTER) == [ZERO, ONE]
    assert ResetFields(topic="orders").selected([], CLUSTER) == [ZERO, ONE]
    assert ResetFields(topic="orders", partitions="1, 1").selected([], CLUSTER) == [ONE]
    with pytest.raises(ValueError, match="has committed nothing"):
        ResetFields().selected([], CLUSTER)


def test_a_plan_survives_the_form() -> None:
    plan = [
        PlannedOffset(ZERO, 5, 2, start=0, end=9),
        PlannedOffset(TopicPartition("ä\"'<", 1), None, 9, start=0, end=9),
    ]
    assert read_plan(plan_text(plan)) == {ZERO: 2, TopicPartition("ä\"'<", 1): 9}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=4), max_leaves=8
    )
)
def test_any_json_is_a_plan_or_refused(value: object) -> None:
    try:
        plan = read_plan(json.dumps(value))
    except ValueError:
        return
    assert all(0 <= partition.partition < 2**31 and 0 <= offset < 2**63 for partition, offset in plan.items())


def test_a_plan_has_sums() -> None:
    plan = [PlannedOffset(ZERO, 5, 2, start=0, end=9), PlannedOffset(ONE, 1, 4, start=0, end=4)]
    assert PlanSums.of(plan) == PlanSums(skipped=3, read_again=3, lag=7, changed=2)
    unknown = [*plan, PlannedOffset(TopicPartition("orders", 2), None, 0, start=0, end=1)]
    assert PlanSums.of(unknown) == PlanSums(skipped=None, read_again=None, lag=8, changed=3)
