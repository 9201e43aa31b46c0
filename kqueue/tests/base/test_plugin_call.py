from __future__ import annotations

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.base.plugin_call import PluginCall

CALL = PluginCall("storage 'x' of some-plugin 2.1", (StorageFailed, FileNotFoundError))


def test_result_of_the_expected_type_is_returned() -> None:
    assert CALL("add", int, lambda a, b: a + b, 1, b=2) == 3
    assert CALL("nothing", (int, type(None)), lambda: None) is None


def test_permitted_exception_passes_unchanged() -> None:
    def gone() -> None:
        raise FileNotFoundError("a")

    with pytest.raises(FileNotFoundError):
        CALL("read", bytes, gone)


def test_unexpected_exception_names_the_plugin_without_its_message() -> None:
    with pytest.raises(
        StorageFailed, match="storage 'x' of some-plugin 2.1: read failed: ZeroDivisionError: "
    ) as caught:
        CALL("read", bytes, lambda: 1 // 0)
    assert caught.value.summary == "storage 'x' of some-plugin 2.1: read failed"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_wrong_type_is_named_with_the_right_one() -> None:
    with pytest.raises(
        StorageFailed, match="of some-plugin 2.1 broke its contract: read returned str, expected bytes or NoneType"
    ):
        CALL("read", (bytes, type(None)), lambda: "text")
