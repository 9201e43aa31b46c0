from __future__ import annotations

from kqueue.api.errors import code_of
from kqueue.base.errors import KqueueError, NotCoordinator
from kqueue.interbroker.response_errors import _EXCEPTIONS, error_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode


@for_each("code", _EXCEPTIONS)
def test_an_error_comes_as_it_was_sent(code: int) -> None:
    error = error_of(code, "t-0")
    assert code_of(error) == code
    assert str(error) == f"t-0: {ErrorCode(code).name}"


def test_codes_map_to_none_to_exceptions_or_to_a_general_error() -> None:
    assert error_of(0, "t-0") is None
    assert type(error_of(ErrorCode.NOT_COORDINATOR, "g")) is NotCoordinator
    for code in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.LOG_DIR_NOT_FOUND, 9999):
        assert type(error_of(code, "t-0")) is KqueueError
    assert str(error_of(9999, "t-0")) == "t-0: error code 9999"
