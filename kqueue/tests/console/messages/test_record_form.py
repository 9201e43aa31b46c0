from __future__ import annotations

import pytest

from kqueue.console.messages.record_form import NewRecord, record_of


def test_a_form_becomes_a_record() -> None:
    fields = {
        "key": " k ", "key_form": "text", "value": '{"a": 1}', "value_form": "json", "partition": "2",
        "timestamp": "1700000000000", "headers": "trace=a=b\r\nnone\r\n\r\n",
    }  # fmt: skip
    assert record_of(fields) == NewRecord(
        b" k ", b'{"a": 1}', (("trace", b"a=b"), ("none", None)), 2, 1_700_000_000_000
    )


@pytest.mark.parametrize(
    ("text", "form", "data"),
    [("a\r\nb", "text", b"a\nb"), ("00 ff:0A", "hex", b"\x00\xff\n"), ("AP8=", "base64", b"\x00\xff"),
     ("", "null", None), ("", "text", b""), ("", "hex", b""), ("5", "json", b"5")],
)  # fmt: skip
def test_texts_become_bytes_as_chosen(text: str, form: str, data: bytes | None) -> None:
    assert record_of({"value": text, "value_form": form}).value == data


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"value": "{", "value_form": "json"}, "value: this is no JSON"),
        ({"value": "f", "value_form": "hex"}, "value: this is no hex"),
        ({"value": "zz", "value_form": "hex"}, "value: this is no hex"),
        ({"value": "?", "value_form": "base64"}, "value: this is no base64"),
        ({"value": "x", "value_form": "null"}, "value: it is null"),
        ({"key": "x", "key_form": "xml"}, "key: expected one of"),
        ({"key": "\ud800"}, "key: it has half of a surrogate pair"),
        ({"partition": "-1"}, "partition: expected"),
        ({"partition": "4294967296"}, "partition: expected"),
        ({"timestamp": "now"}, "timestamp: expected"),
        ({"headers": "a=b\n" * 101}, "headers: expected at most"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        record_of(fields)
