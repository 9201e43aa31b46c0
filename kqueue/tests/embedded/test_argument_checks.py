from __future__ import annotations

import pytest

from kqueue.embedded.argument_checks import (
    check_broker_id,
    check_keywords,
    check_kind,
    check_list,
    check_no_configs,
    near,
)


def test_a_bool_is_no_number_unless_it_may_be_one() -> None:
    check_kind("times", 1, int, "a number")
    check_kind("exactly", True, bool, "True or False")
    with pytest.raises(TypeError, match="times=True: expected a number"):
        check_kind("times", True, int, "a number")


@pytest.mark.parametrize("value", ["text", b"bytes", {"a": 1}, 5, None])
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
