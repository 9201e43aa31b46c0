from __future__ import annotations

import pytest

import kqueue
from kqueue.embedded.argument_checks import (
    check_broker_id,
    check_keywords,
    check_kind,
    check_list,
    check_no_configs,
    check_seconds,
    near,
)
from kqueue.tests.tables import for_each


def test_a_bool_is_no_number_unless_it_may_be_one() -> None:
    check_kind("times", 1, int, "a number")
    check_kind("exactly", True, bool, "True or False")
    with pytest.raises(TypeError, match="times=True: expected a number"):
        check_kind("times", True, int, "a number")


@for_each("value", ["text", b"bytes", {"a": 1}, 5, None])
def test_value_that_is_no_list_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="values=.*: expected a list"):
        check_list("values", value, "a list")


def test_a_broker_is_meant_by_its_node_id() -> None:
    check_broker_id("kill", 1, range(2))
    with pytest.raises(
        ValueError, match="kill: expected the node id of a broker, a number from 0 to 1: .* no broker 2"
    ):
        check_broker_id("kill", 2, range(2))
    with pytest.raises(TypeError, match="found True"):
        check_broker_id("kill", True, range(2))


def test_unknown_keywords_are_refused_with_the_nearest() -> None:
    check_keywords("call", ["keys"], ["keys", "values"], {})
    with pytest.raises(TypeError, match=r"call\(\) has no argument 'valeus'; did you mean 'values'"):
        check_keywords("call", ["valeus"], ["keys", "values"], {})
    with pytest.raises(TypeError, match="no argument 'timeout'; did you mean 'within_s'"):
        check_keywords("call", ["timeout"], ["within_s"], {"timeout": "within_s"})
    assert (near("partition_count", ["partitions"]), near("partitons", ["partitions"])) == (None, "partitions")


def test_settings_in_a_dict_are_shown_as_keywords() -> None:
    check_no_configs("call", {"retention_ms": 5})
    with pytest.raises(TypeError, match="settings are keywords, write retention_ms=5, cleanup_policy='compact'"):
        check_no_configs("call", {"config": {"retention.ms": 5, "cleanup.policy": "compact"}})


@for_each("value", ["5", True, None, [1]])
def test_seconds_are_a_number(value: object) -> None:
    with pytest.raises(TypeError, match="within_s=.*: expected a number of seconds, 0 or more"):
        check_seconds("within_s", value)


def test_seconds_are_0_or_more() -> None:
    check_seconds("within_s", 0)
    check_seconds("within_s", 0.5)
    for value in (-1, float("nan")):
        with pytest.raises(ValueError, match="within_s=.*: expected a number of seconds, 0 or more"):
            check_seconds("within_s", value)


@for_each(
    "keywords, message",
    [
        ({"path": 3}, "path=3: expected a folder"),
        ({"snapshot": b"x"}, "snapshot=b'x': expected a folder"),
        ({"tls": "yes"}, "tls='yes': expected True or False"),
        ({"users": {"ann": 3}}, "users: expected a dict of passwords .* no text"),
    ],
)
def test_arguments_of_a_broker_are_checked_at_once(keywords: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        kqueue.Broker(**keywords)


def test_calls_of_a_broker_check_what_they_are_given() -> None:
    with kqueue.Broker() as broker:
        broker.create_topic("t", 1)
        broker.topics["t"].produce("x")
        with pytest.raises(TypeError, match="within_s='5': expected a number"):
            broker.assert_produced("t", ["x"], within_s="5")
        with pytest.raises(TypeError, match="decode=3: expected a function"):
            broker.assert_produced("t", ["x"], decode=3)
        with pytest.raises(ValueError, match=r"timestamp=\d+: expected milliseconds since 1970, or -1 for none"):
            broker.topics["t"].produce("x", timestamp=2**63)
        with pytest.raises(TypeError, match="folder=3: expected a folder"):
            broker.snapshot(3)
