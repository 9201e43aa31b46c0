from __future__ import annotations

import pytest

from kqueue.spark.errors import OptionError
from kqueue.spark.options import Option, OptionTable, nonempty, one_of

TABLE = OptionTable(
    (
        Option("subscribe", nonempty, None, "both", "Topics."),
        Option("groupId", nonempty, None, "stream", "A group."),
        Option("decoder", one_of("auto", "fast"), "auto", "batch", "Which loops."),
    ),
    ("pollTimeoutMs",),
    {"kafka.interceptor.classes": "there is no Java"},
    who="readers",
    prefix="asyncprogress",
)


def values(*, streaming: bool = True, **given: str) -> dict[str, object]:
    named = {name.replace("_", "."): text for name, text in given.items()}
    return TABLE.values(named, streaming=streaming, misplaced=lambda option: f"{option.name} is misplaced")


def test_what_is_not_given_has_its_default_and_names_are_taken_in_any_case() -> None:
    assert values() == {"subscribe": None, "groupId": None, "decoder": "auto"}
    assert values(SUBSCRIBE=" orders ", groupid="mail") == {"subscribe": "orders", "groupId": "mail", "decoder": "auto"}
    assert values(streaming=False, Decoder="FAST")["decoder"] == "fast"


def test_what_has_no_meaning_changes_nothing() -> None:
    given = {"polltimeoutms": "1", "asyncProgressTrackingEnabled": "true", "kafka_security_protocol": "plaintext"}
    assert values(**given) == values()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscribe": " "}, "^subscribe is empty$"),
        ({"decoder": "fast"}, "^decoder is misplaced$"),
        ({"grupId": "x"}, "^there is no option 'grupId'; did you mean 'groupId'"),
        ({"kafka_interceptor_classes": "x"}, "^kafka.interceptor.classes is not supported: there is no Java$"),
        ({"kafka_security_protocol": "SSL"}, "TLS and SASL are not supported yet; readers connect in plain text"),
        ({"kafka_sasl_mechanism": "PLAIN"}, "TLS and SASL are not supported yet"),
    ],
)
def test_what_can_not_be_is_told(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        values(**given)


def test_one_of_tells_which() -> None:
    with pytest.raises(OptionError, match="^decoder: expected auto or fast, found 'slow'$"):
        values(streaming=False, decoder="slow")
