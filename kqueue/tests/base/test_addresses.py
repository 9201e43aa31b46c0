from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.addresses import Address, parse_addresses
from kqueue.tests.tables import for_each

HOSTS = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True) | st.just("fe80::1")


@given(st.lists(st.builds(Address, HOSTS, st.integers(1, 65535)), min_size=1, max_size=4))
def test_formatted_addresses_parse_to_the_same(addresses: list[Address]) -> None:
    assert parse_addresses(" , ".join(map(str, addresses))) == tuple(addresses)


def test_the_port_may_be_left_out() -> None:
    assert parse_addresses("broker,[::1],[::1]:9094") == (("broker", 9092), ("::1", 9092), ("::1", 9094))


@for_each("text", ["a:b", "a:0", "a:65536", ":9092", "", ",", "a:-1", "a:٣"])
def test_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_addresses(text)
