from __future__ import annotations

import inspect

import pytest

from kqueue.api.errors import code_of
from kqueue.base.errors import RequestRefused
from kqueue.groups import errors
from kqueue.groups.errors import InvalidGroupId, check_named
from kqueue.wire.error_codes import ErrorCode


def test_only_an_empty_group_id_is_refused() -> None:
    check_named("g")
    check_named(" ")
    with pytest.raises(InvalidGroupId, match="must not be empty"):
        check_named("")


def test_each_error_of_groups_has_its_own_code() -> None:
    classes = [
        cls
        for _, cls in inspect.getmembers(errors, inspect.isclass)
        if cls.__module__ == errors.__name__ and issubclass(cls, RequestRefused)
    ]
    codes = {cls: code_of(cls("refused")) for cls in classes}
    assert len(classes) > 5
    assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes.values()
    assert len(set(codes.values())) == len(classes)
