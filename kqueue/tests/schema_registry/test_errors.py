from __future__ import annotations

import re

from kqueue.schema_registry import errors
from kqueue.schema_registry.errors import SENTENCE_CHARACTERS_MAX, SUBJECT_NOT_FOUND, ErrorKind, RegistryError

KINDS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, ErrorKind)}


def test_error_has_the_number_the_status_and_the_sentence_of_its_kind() -> None:
    error = RegistryError(SUBJECT_NOT_FOUND, subject="orders")
    assert (error.code, error.status, str(error)) == (40401, 404, "Subject 'orders' not found.")


def test_codes_are_the_numbers_of_their_status_and_mean_one_thing() -> None:
    by_code: dict[int, list[str]] = {}
    for name, kind in KINDS.items():
        assert 400 <= kind.status < 600
        by_code.setdefault(kind.code, []).append(name)
    shared = {code: sorted(names) for code, names in by_code.items() if len(names) > 1}
    assert shared == {
        40403: ["SCHEMA_ID_NOT_FOUND", "SCHEMA_NOT_FOUND"],
        42201: ["CIRCULAR_REFERENCE", "INVALID_SCHEMA"],
    }


def test_sentences_can_be_filled() -> None:
    for kind in KINDS.values():
        names = re.findall(r"{(\w+)", kind.sentence)
        assert str(RegistryError(kind, **dict.fromkeys(names, 7)))


def test_sentence_is_not_longer_than_its_bound() -> None:
    assert len(str(RegistryError(SUBJECT_NOT_FOUND, subject="x" * 1_000_000))) == SENTENCE_CHARACTERS_MAX


def test_braces_in_a_field_are_no_placeholders() -> None:
    assert "{oldSchema}" in str(RegistryError(SUBJECT_NOT_FOUND, subject="{oldSchema}"))
