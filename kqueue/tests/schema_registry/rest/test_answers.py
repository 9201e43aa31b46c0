from __future__ import annotations

from kqueue.schema_registry.errors import SUBJECT_NOT_FOUND, RegistryError
from kqueue.schema_registry.rest.answers import answer, error_answer
from kqueue.schema_registry.rest.call import PlainText


def test_answer_is_json_in_one_line_or_a_text_as_it_is() -> None:
    assert answer({"a": ["ü", 1]}).body == '{"a":["ü",1]}'.encode()
    assert answer(PlainText('"ü"')).body == '"ü"'.encode()
    assert answer([], "application/json").headers["content-type"] == "application/json"


def test_error_has_number_and_sentence() -> None:
    response = error_answer(RegistryError(SUBJECT_NOT_FOUND, subject="a"), {"allow": "GET"})
    assert (response.status_code, response.headers["allow"]) == (404, "GET")
    assert response.body == b'{"error_code":40401,"message":"Subject \'a\' not found."}'


def test_half_a_surrogate_pair_is_escaped() -> None:
    assert answer({"a": "\ud800"}).body == b'{"a":"\\ud800"}'
