"""Shapes from TOML: what they come to, and what is said of files that are wrong."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from kqueue.cli.pipeline.ingest import EXAMPLE
from kqueue.spark.errors import OptionError
from kqueue.spark.event_schema import BUILT_IN, FLIGHTS, EventSchema, Field, load, parse
from kqueue.tests.tables import for_each

LEAST = """
id = "number"
time = "at"
[fields]
number = "bigint"
at = "timestamp_ms"
"""
WHOLE = """
id = "number"
time = ["paid", "at"]
by = ["shop", "paid"]
window = "1 day"
lateness = "1 hour 30 minutes"
[fields]
number = "bigint"
shop = "string?"
at = "timestamp"
paid = "timestamp?"
amount = "decimal(10, 2)"
[rules]
"amount: below 0" = "amount >= 0"
[gold]
orders = "count(*)"
"""


def test_key_left_out_has_its_default() -> None:
    assert parse(LEAST) == EventSchema((Field("number", "bigint"), Field("at", "timestamp_ms")), "number", ("at",))
    assert (parse(LEAST).by, parse(LEAST).rules, parse(LEAST).gold) == ((), {}, {"events": "count(*)"})
    assert (parse(LEAST).window, parse(LEAST).lateness) == ("1 hour", "2 hours")


def test_every_key_is_parsed() -> None:
    schema = parse(WHOLE)
    assert schema.fields[1:4] == (
        Field("shop", "string", True),
        Field("at", "timestamp"),
        Field("paid", "timestamp", True),
    )
    assert schema.fields[4].kind.spark == "decimal(10,2)"
    assert (schema.id, schema.time, schema.by) == ("number", ("paid", "at"), ("shop", "paid"))
    assert (schema.window, schema.lateness) == ("1 day", "1 hour 30 minutes")
    assert (schema.rules, schema.gold) == ({"amount: below 0": "amount >= 0"}, {"orders": "count(*)"})
    assert schema.names == ("number", "shop", "at", "paid", "amount")


def test_flights_are_the_built_in_schema() -> None:
    assert [load(name) for name in BUILT_IN] == [FLIGHTS]
    assert FLIGHTS.names == ("id", "flight", "origin", "dest", "scheduled", "departed", "delay_min")


def test_example_of_the_help_is_parsed() -> None:
    text = textwrap.dedent(EXAMPLE.partition("behind it:\n")[2])
    schema = parse(text)
    assert schema.fields[3] == Field("paid", "timestamp", True)
    assert schema.gold == {"orders": "count(*)", "revenue": "sum(amount)"}


def test_file_is_loaded_as_its_text_is_parsed(tmp_path: Path) -> None:
    file = tmp_path / "orders.toml"
    file.write_text(WHOLE)
    assert load(str(file)) == parse(WHOLE)


def with_line(line: str, text: str = LEAST) -> str:
    return f"{line}\n{text}"


WRONG = {
    "id 1": "it is no TOML",
    "id = 1": "fields is missing",
    with_line("windw = '1 hour'"): "there is no 'windw'; did you mean 'window'?",
    with_line("by = 'shop'"): "by: there is no field 'shop'",
    with_line("by = 'numbr'"): "by: there is no field 'numbr'; did you mean 'number'?",
    with_line("by = ['at', 'at']"): "by: a field is named twice",
    with_line("by = 3"): "by: expected a text in quotes, found 3",
    with_line("window = '1 month'"): "window: expected a time such as",
    with_line("lateness = '2h'"): "lateness: expected a time such as",
    with_line("lateness = '0 hours'"): "lateness: expected a time such as",
    with_line("lateness = '99999 weeks'"): "lateness: expected a time such as",
    with_line('lateness = "1 hour\' or 1"'): "lateness: expected a time such as",
    with_line("rules = 'amount > 0'"): "rules: expected a table, [rules]",
    LEAST.replace("id =", "by ="): "id is missing",
    LEAST.replace('time = "at"', ""): "time is missing",
    LEAST.replace('time = "at"', "time = []"): "time: no field is named",
    LEAST.replace(
        'time = "at"', 'time = "number"'
    ): "time: 'number' is a bigint, expected one of timestamp, timestamp_ms",
    LEAST.replace('"number"', '"numbre"', 1): "id: there is no field 'numbre'; did you mean 'number'?",
    LEAST.replace('"bigint"', '"bigint?"'): "id: every event needs one, and 'number' may be null",
    LEAST.replace('"bigint"', '"bigit"'): "fields: number: there is no type 'bigit'; did you mean 'bigint'?",
    LEAST.replace('"bigint"', '"decimal(39,2)"'): "fields: number: there is no type 'decimal(39,2)'",
    LEAST.replace('"bigint"', '"decimal(2,3)"'): "fields: number: there is no type 'decimal(2,3)'",
    LEAST.replace('"bigint"', "7"): "number: expected a text in quotes, found 7",
    LEAST.partition("number = ")[0]: "fields: expected a table, [fields], with a line for each",
    LEAST
    + 'topic = "string"\n': "fields: 'topic' is there twice (the tables have that of themselves); call it otherwise",
    LEAST + 'AT = "string"\n': "fields: 'at' is there twice; call it otherwise",
    LEAST + '"a.b" = "string"\n': "fields: 'a.b' can't be a column",
    LEAST + '_event = "string"\n': "fields: '_event' can't be a column",
    LEAST + "[gold]\n": "gold: no column is named",
    LEAST + '[gold]\nstart = "count(*)"\n': "gold: 'start' is there twice; call it otherwise",
    LEAST + '[gold]\n"a b" = "count(*)"\n': "gold: 'a b' can't be a column",
}


@for_each("text, words", WRONG.items())
def test_wrong_file_is_reported_in_one_sentence_with_its_name(text: str, words: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse(text, "orders.toml")
    assert str(caught.value).startswith(f"orders.toml: {words}")
    assert "\n" not in str(caught.value)


def test_unreadable_file_is_reported_in_one_sentence(tmp_path: Path) -> None:
    for name, data, words in [
        ("flight", None, "there is no file 'flight'; did you mean 'flights'?"),
        (str(tmp_path), None, "can't be read: Is a directory"),
        (str(tmp_path / "a"), b'id = "\xff"', "is not UTF-8 at byte 6"),
        (str(tmp_path / "b"), b"#" * 1_000_001, "has more than 1,000,000 bytes"),
        (str(tmp_path / "c"), b"id = " + b"[" * 100_000, "is nested too deeply"),
    ]:
        if data is not None:
            Path(name).write_bytes(data)
        with pytest.raises(OptionError, match=words.replace("?", r"\?")):
            load(name)
