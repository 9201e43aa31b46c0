from __future__ import annotations

from kqueue.console.messages.message import HEADERS_MAX, Excerpt, excerpt, message_of
from kqueue.records.record import Record


def test_long_parts_are_excerpts_that_know_their_size() -> None:
    record = Record(7, 12, b"k" * 10, b"v" * 100, (("name", b"h" * 50),))
    message = message_of(3, record, is_log_append_time=True, bytes_max=20)
    assert (message.key, message.value) == (Excerpt(b"k" * 10, 10), Excerpt(b"v" * 20, 100))
    assert [message.key.is_cut, message.value.is_cut] == [False, True]
    assert message.headers == (("name", Excerpt(b"h" * 20, 50)),)
    assert message.held_bytes == 10 + 20 + 20 + 4


def test_null_is_not_empty_and_not_cut() -> None:
    assert excerpt(None, 10) == Excerpt(None, 0)
    assert excerpt(b"", 10) == Excerpt(b"", 0)
    assert not excerpt(None, 10).is_cut


def test_headers_beyond_the_limit_are_counted_only() -> None:
    record = Record(0, 0, None, None, tuple((str(at), b"") for at in range(HEADERS_MAX + 5)))
    message = message_of(0, record, is_log_append_time=False, bytes_max=20)
    assert (len(message.headers), message.header_count) == (HEADERS_MAX, HEADERS_MAX + 5)
