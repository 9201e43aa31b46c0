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
    assert module.error_summary(ValueError(java)) == "x.NotFound: No source: kqueue."
    made = "An error occurred while calling None.org.x.Context.\n: org.x.WrongException: [MEMORY] Low.\n\tat a.B(C:1)"
    assert module.error_summary(ValueError(made)) == "[MEMORY] Low."
    for error in (DataLost, BrokerRefused, CorruptBatch):  # each layer has its module of errors
        ours = (
            "[STREAM_FAILED] Query failed:\nTraceback (most recent call last):\n"
            f"{error.__module__}.{error.__name__}: a-0 is gone; look\n\n"
        )
        assert module.error_summary(ValueError(ours)) == "a-0 is gone; look"
    assert module.error_summary(ValueError("It failed.\n\nJVM stacktrace:\nat a.b")) == "It failed."
    assert len(module.error_summary(ValueError("x" * 5000))) == module.WORDS_MAX


def test_why_java_did_not_start_is_one_line_of_its_output() -> None:
    noise = "Picked up _JAVA_OPTIONS: -Xss1m\nWARNING: Using incubator modules: jdk.incubator.vector\n"
    thrown = 'Exception in thread "main" java.lang.IllegalArgumentException: requirement failed: three parts\n'
    stack = "\tat scala.Predef$.require(Predef.scala:337)\n"
    assert module.java_reason(noise + thrown + stack) == "requirement failed: three parts"
    heap = "Invalid maximum heap size: -Xmxlots\nError: Could not create the Java Virtual Machine.\n"
    assert module.java_reason(noise + heap) == "Invalid maximum heap size: -Xmxlots"
    assert module.java_reason(noise) == ""


def test_a_cut_bridge_to_java_is_told_from_other_errors() -> None:
    cut = type("Py4JNetworkError", (Exception,), {"__module__": "py4j.protocol"})
    assert module.is_java_lost(cut("Answer from Java side is empty"))
    assert module.is_java_lost(ConnectionRefusedError())
    assert not module.is_java_lost(type("Py4JError", (Exception,), {"__module__": "py4j.protocol"})())
    assert not module.is_java_lost(OSError())
