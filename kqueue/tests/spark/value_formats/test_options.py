from __future__ import annotations

import pickle

import pytest

from kqueue.spark.errors import OptionError
from kqueue.spark.value_formats.options import value_settings, without_values
from kqueue.tests.tables import for_each

GIVEN = {"subscribe": "orders", "valueformat": "AVRO", "VALUESCHEMA": "order.avsc", "valueMode": "Permissive"}

REGISTRY = {"valueFormat": "avro", "valueSchemaRegistry": "http://host:8081"}
USER = {"valueSchemaRegistryUser": "a", "valueSchemaRegistryPassword": "b"}


def test_subject_follows_from_topic_and_options() -> None:
    for given, subject in (
        ({"subscribe": "orders"}, "orders-value"),
        ({"assign": '{"orders":[0,1]}'}, "orders-value"),
        ({"subscribe": "a,b", "valueSchemaSubject": "s"}, "s"),
        ({"subscribe": "a,b", "valueSchema": "x"}, None),
    ):
        settings = value_settings(REGISTRY | given)
        assert settings is not None
        assert settings.subject == subject


def test_option_names_are_accepted_in_any_case() -> None:
    settings = value_settings(GIVEN)
    assert settings is not None
    assert (settings.format, settings.schema, settings.permissive) == ("avro", "order.avsc", True)
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert without_values(GIVEN) == {"subscribe": "orders"}
    assert value_settings({"subscribe": "orders"}) is None


@for_each(
    "given, words",
    [
        ({"valueFormat": "xml"}, "valueFormat: expected none"),
        ({"valueFormat": "avro", "valueMode": "lenient", "valueSchema": "x"}, "valueMode: expected failfast"),
        ({"valueMode": "permissive"}, "valueMode needs valueFormat"),
        ({"valueFormat": "avro"}, "valueFormat needs valueSchema"),
        ({"valueFormat": "none", "valueSchema": "x"}, "valueSchema needs valueFormat"),
        ({"valueFormat": "avro", "valueSchema": "x", "valueMessage": "M"}, "valueMessage is for valueFormat=protobuf"),
        ({"valueFormat": "avro", "valueSchema": "x", "valueSchemaSubject": "s"}, "valueSchemaSubject needs"),
        (REGISTRY | {"subscribe": "a,b"}, "name valueSchemaSubject"),
        (REGISTRY | {"valueSchemaRegistry": "host:8081"}, "expected a URL such as"),
        (REGISTRY | {"valueSchemaRegistry": "http://a:b@host"}, "name the user by valueSchemaRegistryUser"),
        (REGISTRY | {"valueSchemaRegistryUser": "a"}, "go together"),
        (REGISTRY | USER | {"valueSchemaRegistryToken": "t"}, "contradict each other"),
        (REGISTRY | {"valueSchemaRegistryCa": "/none.pem"}, "valueSchemaRegistryCa can't be read: No such file"),
        ({"valueFormat": "avro", "valueSchema": " "}, "valueSchema is empty"),
    ],
)
def test_wrong_options_are_refused_with_the_reason(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        value_settings(given)
