from __future__ import annotations

import json
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.console.messages.message import Excerpt, excerpt
from kqueue.console.messages.value_view import DECODED_BYTES_MAX, FORMS, DecodedValue, ValueReader, ValueView


class Schemas:
    """Decodes what begins with a zero byte; "bad" is refused."""

    def applies_to(self, data: bytes, *, is_key: bool) -> bool:
        return data[:1] == b"\0"

    def decode(self, data: bytes, *, is_key: bool) -> DecodedValue:
        if data == b"\0bad":
            raise ValueError("the registry has no schema 7")
        return DecodedValue({"name": data[1:].decode(), "key": is_key}, "Avro shop.Order")


READER = ValueReader()
WITH_SCHEMAS = ValueReader(Schemas())


def view(data: bytes | None, form: str = "auto", characters_max: int = 1_000, **more: Any) -> ValueView:
    return READER.view(excerpt(data, 64 * 1024), form, characters_max=characters_max, **more)


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (None, "null", "null"),
        (b"", "text", ""),
        (b"hello", "text", "hello"),
        (b'{"a":1}', "json", '{\n  "a": 1\n}'),
        (b"[1, 2]", "json", "[\n  1,\n  2\n]"),
        (b'{"a":1', "text", '{"a":1'),
        (b"\x00\x01", "hex", f"00000000  {'00 01':<47}  .."),
        (msgpack.packb({"a": [b"\xff"]}), "msgpack", '{\n  "a": [\n    {\n      "base64": "/w=="\n    }\n  ]\n}'),
    ],
)
def test_forms_are_detected(data: bytes | None, form: str, text: str) -> None:
    shown = view(data)
    assert (shown.form, shown.text) == (form, text)
    assert shown.size == len(data or b"")


@pytest.mark.parametrize("form", FORMS)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_shown_in_any_form(form: str, data: bytes) -> None:
    shown = WITH_SCHEMAS.view(excerpt(data, 200), form, characters_max=100)
    assert len(shown.text) <= 100
    assert shown.form in FORMS
    if form not in ("auto", shown.form):
        assert shown.reason, "what was chosen and what is shown differ, so there is a reason"


def test_what_is_not_of_the_chosen_form_has_a_reason() -> None:
    shown = view(b"hello", "json")
    assert (shown.form, shown.text) == ("text", "hello")
    assert shown.reason.startswith("not JSON: ")
    assert view(b"\xff\xfe\x00", "json").form == "hex"
    assert view(b"hello", "schema").reason == (
        "not by schema: the console has no schemas: start it with --schema-registry"
    )


def test_control_characters_and_directions_are_shown_as_escapes() -> None:
    assert view("a\x1b[31m\u202eb".encode()).text == "a\\x1b[31m\\u202eb"
    assert "\u202e" not in view('{"a":"\u202e"}'.encode()).text
    assert view(b"a\nb\tc", one_line=True).text == "a\\nb\\tc"


def test_text_that_is_not_utf8_can_be_forced() -> None:
    assert view(b"caf\xe9", "text").text == "caf\\xe9"


def test_large_values_are_cut_and_not_decoded() -> None:
    large = b'{"a":"' + b"x" * DECODED_BYTES_MAX + b'"}'
    shown = view(large, "json", 50)
    assert (shown.form, shown.is_cut, len(shown.text), shown.size) == ("text", True, 50, len(large))
    assert "too many to decode" in shown.reason


def test_a_cut_within_a_character_is_no_reason_for_hex() -> None:
    assert READER.view(Excerpt("aé".encode()[:2], 100), characters_max=10).form == "text"


def test_nesting_that_exhausts_the_stack_is_shown_as_text() -> None:
    assert view(b"[" * 50_000 + b"]" * 50_000, characters_max=10).form == "text"
    assert view(b"\x91" * 60_000 + b"\xc0").form == "hex"


def test_values_with_a_schema_are_decoded_by_it() -> None:
    shown = WITH_SCHEMAS.view(excerpt(b"\0Ada", 100), characters_max=100, one_line=True)
    assert shown == ValueView("schema", '{"name": "Ada", "key": false}', 4, False, "Avro shop.Order")
    assert '"key": true' in WITH_SCHEMAS.view(excerpt(b"\0Ada", 100), characters_max=100, is_key=True).text


def test_a_schema_that_is_missing_is_a_reason() -> None:
    shown = WITH_SCHEMAS.view(excerpt(b"\0bad", 100), characters_max=100)
    assert (shown.form, shown.reason) == ("hex", "not by schema: the registry has no schema 7")


def test_forms_by_schema_are_offered_only_with_schemas() -> None:
    assert "schema" in WITH_SCHEMAS.forms
    assert "schema" not in READER.forms


def test_documents_are_those_that_are_shown() -> None:
    assert READER.document(b'{"a":1}') == {"a": 1}
    assert READER.document(b"5") == 5
    assert READER.document(msgpack.packb({"a": 1})) == {"a": 1}
    assert WITH_SCHEMAS.document(b"\0Ada") == {"name": "Ada", "key": False}
    assert READER.document(None) is None
    for data in (b"hello", b"\xff", b"x" * (DECODED_BYTES_MAX + 1)):
        with pytest.raises(ValueError, match=r".+"):
            READER.document(data)


def test_a_page_of_json_keeps_numbers() -> None:
    text = b'{"n":12345678901234567890123,"f":0.1000000000000000000001}'
    assert json.loads(view(text).text, parse_float=str)["f"] == "0.1000000000000000000001"
