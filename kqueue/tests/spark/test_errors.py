from __future__ import annotations

from kqueue.base.errors import CorruptBatch
from kqueue.client.errors import BrokerRefused
from kqueue.spark import errors as module
from kqueue.spark.errors import DataLost


def test_sparks_words_come_without_its_stack() -> None:
    java = (
        "An error occurred while calling o51.load.\n: x.NotFound: No source: kqueue.\n"
        "\tat org.x.Y$.f(Y.scala:7)\n\tat org.x.Z(Z:1)"
    )
    assert (
        module.error_summary(ValueError(java))
        == "An error occurred while calling o51.load. : x.NotFound: No source: kqueue."
    )
    for error in (DataLost, BrokerRefused, CorruptBatch):  # each layer has its module of errors
        ours = (
            "[STREAM_FAILED] Query failed:\nTraceback (most recent call last):\n"
            f"{error.__module__}.{error.__name__}: a-0 is gone; look\n\n"
        )
        assert module.error_summary(ValueError(ours)) == "a-0 is gone; look"
    assert module.error_summary(ValueError("It failed.\n\nJVM stacktrace:\nat a.b")) == "It failed."
    assert len(module.error_summary(ValueError("x" * 5000))) == module.WORDS_MAX
