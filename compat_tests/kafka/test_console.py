"""The console in the browser shows Apache Kafka as it shows kqueue."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import pytest

from kqueue.client import Client, TopicPartition
from kqueue.console.navigation import NAVIGATION
from kqueue.records.builder import build_batch
from kqueue.records.record import Record
from kqueue.tests.console.browser import Browser, visits, words


@pytest.fixture
def editor(either: str) -> Iterator[Browser]:
    with visits() as visit:
        yield visit(either, allow_changes=True)


def test_every_section_has_its_page(editor: Browser) -> None:
    for section in (section for group in NAVIGATION for section in group.sections):
        response = editor.get(section.path)
        # Kafka has no ACLs without an authorizer; a sentence says so.
        assert response.status_code == 200 or "authorizer" in response.text, (section.path, words(response.text))


def test_a_topic_is_made_filled_searched_and_deleted(editor: Browser) -> None:
    made = editor.submit("/create-topic", {"name": "console", "partitions": "2", "settings": "retention.ms=600000"})
    assert made.url.path == "/topics/console"
    fields = {"partition": "1", "key": "k", "key_form": "text", "value": '{"total": 7}', "value_form": "json"}
    page = "/topics/console/produce"
    sent = editor.submit(page, fields, on=page)
    assert sent.url.path == "/topics/console/messages/1/0", words(sent.text)
    assert '"total": 7' in editor.text("/topics/console/messages")
    assert "retention.ms" in editor.text("/topics/console/settings?changed=1")
    assert "1 1 1 0 1 1" in editor.text("/topics/console")
    gone = editor.submit("/topics/console/delete", {"confirmed": "console"})
    assert "Deleted topic console." in gone.text


def test_offsets_of_a_group_are_reset_as_previewed_and_the_group_deleted(either: str, editor: Browser) -> None:
    editor.submit("/create-topic", {"name": "read", "partitions": "1"})
    place = TopicPartition("read", 0)
    with Client(either) as client:
        client.produce({place: build_batch([Record(number, 0, None, b"x") for number in range(5)])})
        client.commit("readers", {place: 3})
        assert "read 0 3 5 2" in editor.text("/groups/readers")
        preview = editor.get("/groups/readers/reset?kind=earliest").text
        plan = re.search(r'name="plan" value="([^"]*)"', preview)
        assert plan is not None, words(preview)
        editor.submit("/groups/readers/reset", {"plan": html.unescape(plan[1])})
        assert client.committed("readers")[place].offset == 0
    deleted = editor.submit("/groups/readers/delete", {"confirmed": "readers"})
    assert "readers" not in words(editor.get("/groups").text), words(deleted.text)
