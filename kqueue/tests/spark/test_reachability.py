from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest

from kqueue.spark.errors import PipelineFailed
from kqueue.spark.reachability import check_advertised, connection_error


@pytest.fixture
def used() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as there:
        yield f"127.0.0.1:{there.getsockname()[1]}"


@pytest.fixture
def unused() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def test_an_address_has_an_error_unless_it_takes_connections(used: str, unused: str) -> None:
    assert connection_error(used) is None
    assert connection_error(unused) == "Connection refused"
    assert connection_error("127.0.0.1:99999")
    assert connection_error("no-such-host.invalid:1")


def test_an_address_of_ipv6_is_in_brackets() -> None:
    if not socket.has_ipv6:
        pytest.skip("there is no IPv6 here")
    assert connection_error("[::1]:1") in ("Connection refused", "Cannot assign requested address")


def test_advertised_addresses_of_which_none_is_reached_are_named(used: str, unused: str) -> None:
    check_advertised([])
    check_advertised([unused, used])
    said = f"this machine does not reach {unused} (Connection refused), as the broker calls itself: set the broker's"
    with pytest.raises(PipelineFailed, match=re.escape(said)):
        check_advertised([unused])
