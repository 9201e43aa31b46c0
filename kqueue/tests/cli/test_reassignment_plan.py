from __future__ import annotations

import io
import json

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.cli.reassignment_plan import plan_document, plan_text, read_plan
from kqueue.client import TopicPartition
from kqueue.tests.tables import for_each

partitions = st.builds(TopicPartition, st.text(min_size=1), st.integers(0, 2**31 - 1))
plans = st.dictionaries(
    partitions, st.lists(st.integers(0, 99), min_size=1, max_size=5, unique=True).map(tuple), min_size=1
)


def stream(text: str) -> io.StringIO:
    given = io.StringIO(text)
    given.name = "plan.json"
    return given


@given(plans)
def test_written_plan_is_read_back(plan: dict[TopicPartition, tuple[int, ...]]) -> None:
    assert read_plan(stream(plan_text(plan))) == plan


def test_a_plan_is_written_as_kafkas_tool_does() -> None:
    assert plan_document({TopicPartition("b", 0): (1,), TopicPartition("a", 3): (2, 1)}) == {
        "version": 1,
        "partitions": [
            {"topic": "a", "partition": 3, "replicas": [2, 1], "log_dirs": ["any", "any"]},
            {"topic": "b", "partition": 0, "replicas": [1], "log_dirs": ["any"]},
        ],
    }


def row(**fields: object) -> str:
    return json.dumps(
        {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["any"], **fields}]}
    )


@for_each(
    "text, words",
    [
        ("", "expected a plan in JSON"),
        ("[" * 100_000, "expected a plan in JSON"),
        ("[]", 'expected {"version": 1'),
        ('{"version": 2, "partitions": []}', 'expected {"version": 1'),
        ('{"version": 1}', 'a list under "partitions"'),
        ('{"version": 1, "partitions": []}', "has no partition"),
        ('{"version": 1, "partitions": [7]}', r"partitions\[0\]: expected"),
        (row(topic=1), r"partitions\[0\]: expected"),
        (row(partition=-1), "-1 is no number from 0 on"),
        (row(partition=True), "True is no number from 0 on"),
        (row(replicas=["1"]), "'1' is no number from 0 on"),
        (row(replicas=None), r"partitions\[0\]: expected"),
        (row(replicas=[]), "t-0: expected one or more brokers, each once"),
        (row(replicas=[1, 1]), "t-0: expected one or more brokers, each once"),
        (row(log_dirs=7), r"partitions\[0\]: expected"),
        (row().replace("}]", '}, {"topic": "t", "partition": 0, "replicas": [2]}]'), "t-0 is there twice"),
    ],
)
def test_invalid_plan_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(click.ClickException, match=rf"^plan\.json: .*{words}"):
        read_plan(stream(text))


@pytest.mark.parametrize(("places", "is_said"), [(["any"], False), ([], False), (None, False), (["/data"], True)])
def test_data_folders_of_a_plan_are_not_used(
    places: list[str] | None, is_said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read_plan(stream(row(log_dirs=places))) == {TopicPartition("t", 0): (1,)}
    assert ("log_dirs are not used" in capsys.readouterr().err) is is_said
