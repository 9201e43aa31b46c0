from __future__ import annotations

import pickle

import pytest

from kqueue.client import ClientOptions
from kqueue.tests.tables import for_each


def test_options_can_be_pickled() -> None:
    options = ClientOptions(bootstrap="a:1,b", timeout_ms=7)
    assert pickle.loads(pickle.dumps(options)) == options
    assert options.addresses == (("a", 1), ("b", 9092))


@for_each(
    "wrong, words",
    [
        ({"bootstrap": "a:b"}, "HOST:PORT"),
        ({"timeout_ms": 0}, "timeout_ms=0"),
        ({"response_bytes_max": 1.5}, "expected a whole number"),
    ],
)
def test_wrong_ones_are_refused(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ClientOptions(**{"bootstrap": "a", **wrong})  # type: ignore[arg-type]
