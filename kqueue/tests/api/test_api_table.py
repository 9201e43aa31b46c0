from __future__ import annotations

import re

from kqueue.api import handler_table
from kqueue.api.api_table import (
    CONDITIONS,
    PAGE,
    REASONS,
    TABLE,
    WITHOUT_MESSAGES,
    ApiRow,
    api_rows,
    markdown,
    replace_table,
    versions_text,
)
from kqueue.api.version_profiles import KAFKA
from kqueue.tests.source_tree import ROOT
from kqueue.wire.apis import ALL, BY_KEY


def test_every_api_is_served_or_says_why_not() -> None:
    rows = {row.name: row for row in api_rows()}
    assert set(rows) == {api.name for api in ALL} | set(WITHOUT_MESSAGES.values())
    served = {row.api.name: row.versions for row in handler_table.all_handlers()}
    for name, row in rows.items():
        assert row.served == served.get(name)
        assert bool(row.reason) is (name not in served or name in CONDITIONS)
    assert [row.key for row in api_rows()] == sorted(row.key for row in api_rows())


def test_only_apis_of_the_protocol_have_reasons() -> None:
    assert set(REASONS) <= {row.name for row in api_rows()}
    assert not set(WITHOUT_MESSAGES) & set(BY_KEY)
    assert set(WITHOUT_MESSAGES.values()) <= set(KAFKA)


def test_versions_as_text() -> None:
    assert [versions_text(versions) for versions in ((0, 13), (2, 2), None)] == ["0-13", "2", "-"]
    assert ApiRow(0, "Produce", (0, 13), (0, 13), "").cells() == ("0", "Produce", "0-13", "0-13", "")


def test_the_page_of_apis_has_the_table() -> None:
    page = PAGE.read_text()
    assert TABLE.search(page)
    assert replace_table(page) == page, "run python -m kqueue.api.api_table"


def test_readme_has_the_number_of_apis() -> None:
    row = re.search(
        r"^\| APIs of the protocol \| (\d+) ³ \| (\d+) ³ \|", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert row is not None
    rows = api_rows()
    assert int(row[1]) == sum(each.served is not None for each in rows)
    assert int(row[2]) == sum(each.kafka is not None for each in rows)


def test_the_table_of_a_text_is_replaced_and_nothing_else() -> None:
    text = "before\n\n| Key | API | old |\n| --- | --- | --- |\n| 0 | Produce | - |\n\nafter\n"
    assert replace_table(text) == f"before\n\n{markdown()}\n\nafter\n"
    assert replace_table("no table\n") == "no table\n"
