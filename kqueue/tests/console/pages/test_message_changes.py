from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kqueue import Broker
from kqueue.client import Client, NewTopic, TopicPartition
from kqueue.console.messages.message import Message
from kqueue.console.messages.message_page import read_message
from kqueue.tests.console.browser import Browser, words
from kqueue.tests.console.messages.support import batch

FORMS = ("/topics/{}/produce", "/topics/{}/copy-messages", "/topics/{}/delete-messages")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker of these tests: pages of others list all topics."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def audited(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "kqueue.console.audit")
    return caplog


def test_a_message_is_produced_and_shown(editor: Browser, client: Client, audited: pytest.LogCaptureFixture) -> None:
    client.create_topics([NewTopic("produced", 2)])
    fields = {"key": "k", "key_form": "text", "value": '{"a": 1}', "value_form": "json", "headers": "h=1\r\nn",
              "partition": "1", "timestamp": "5"}  # fmt: skip
    response = editor.submit("/topics/produced/produce", fields, on="/topics/produced/produce")
    assert response.url.path == "/topics/produced/messages/1/0"
    assert "Produced a message to partition 1 at offset 0." in words(response.text)
    message = read_message(client, "produced", 1, 0)
    assert isinstance(message, Message)
    assert (message.key.data, message.value.data, message.timestamp_ms) == (b"k", b'{"a": 1}', 5)
    assert [(name, value.data) for name, value in message.headers] == [("h", b"1"), ("n", None)]
    assert 'action="produce message" resource="produced"' in audited.text


def test_a_form_that_is_wrong_is_shown_again_with_what_was_typed(editor: Browser, client: Client) -> None:
    client.create_topics([NewTopic("mistaken", 1)])
    fields = {"key": "<k>", "key_form": "text", "value": "{\n", "value_form": "json", "partition": "0"}
    response = editor.submit("/topics/mistaken/produce", fields, on="/topics/mistaken/produce")
    assert response.status_code == 400
    assert "value: this is no JSON" in response.text
    assert 'value="&lt;k&gt;"' in response.text
    assert client.offsets({TopicPartition("mistaken", 0): -1})[TopicPartition("mistaken", 0)].offset == 0


def test_messages_are_copied(editor: Browser, client: Client, audited: pytest.LogCaptureFixture) -> None:
    client.create_topics([NewTopic("copied", 1), NewTopic("copies", 1)])
    client.produce({TopicPartition("copied", 0): batch([b"x"] * 5)})
    page = "/topics/copied/copy-messages?partition=0&offset=2"
    assert 'value="2"' in editor.get(page).text
    fields = {"partition": "0", "offset": "2", "count": "100", "target": "copies", "keep": "same"}
    response = editor.submit("/topics/copied/copy-messages", fields, on=page)
    assert response.url.path == "/topics/copies/messages"
    assert "Copied 3 messages to copies." in words(response.text)
    assert 'action="copy messages" resource="copied"' in audited.text
    assert 'target="copies"' in audited.text


@pytest.mark.parametrize(
    ("change", "message"),
    [({"target": "uncopied"}, "itself"), ({"partition": "7"}, "partition: expected"),
     ({"count": "0"}, "count: expected"), ({"offset": "x"}, "offset: expected")],
)  # fmt: skip
def test_a_copy_that_is_wrong_is_refused(editor: Browser, client: Client, change: dict[str, str], message: str) -> None:
    if "uncopied" not in client.metadata().topics:
        client.create_topics([NewTopic("uncopied", 1)])
    fields = {"partition": "0", "offset": "0", "count": "1", "target": "elsewhere", "keep": "key", **change}
    response = editor.submit("/topics/uncopied/copy-messages", fields, on="/topics/uncopied/copy-messages")
    assert response.status_code == 400
    assert message in response.text


def test_a_deletion_is_shown_before_it_is_done(
    editor: Browser, client: Client, audited: pytest.LogCaptureFixture
) -> None:
    client.create_topics([NewTopic("deleted", 1)])
    client.produce({TopicPartition("deleted", 0): batch([b"x"] * 5)})
    page = "/topics/deleted/delete-messages?partition=0&offset=3"
    assert "Up to 3 messages before offset 3 will be deleted; up to 2 stay." in editor.text(page)
    assert client.offsets({TopicPartition("deleted", 0): -2})[TopicPartition("deleted", 0)].offset == 0
    response = editor.submit("/topics/deleted/delete-messages", {"before": "0.3"}, on=page)
    assert "partition 0 begins at offset 3" in words(response.text)
    assert client.offsets({TopicPartition("deleted", 0): -2})[TopicPartition("deleted", 0)].offset == 3
    assert 'action="delete messages" resource="deleted"' in audited.text
    assert 'before="0.3"' in audited.text


@pytest.mark.parametrize("before", ["", "x", "7.1", "0.99"])
def test_a_deletion_that_is_wrong_deletes_nothing(editor: Browser, client: Client, before: str) -> None:
    if "undeleted" not in client.metadata().topics:
        client.create_topics([NewTopic("undeleted", 1)])
        client.produce({TopicPartition("undeleted", 0): batch([b"x"] * 5)})
    response = editor.submit("/topics/undeleted/delete-messages", {"before": before}, on="/topics/undeleted/produce")
    assert response.status_code == 400
    assert client.offsets({TopicPartition("undeleted", 0): -2})[TopicPartition("undeleted", 0)].offset == 0


def test_a_preview_of_nothing_or_beyond_the_end_says_so(editor: Browser, client: Client) -> None:
    client.create_topics([NewTopic("bare", 1)])
    assert "There are no messages before offset 0." in editor.text("/topics/bare/delete-messages?partition=0&offset=0")
    assert "ends at 0" in editor.get("/topics/bare/delete-messages?partition=0&offset=9").text


@pytest.mark.parametrize("form", FORMS)
def test_a_console_that_only_shows_refuses_changes(browser: Browser, client: Client, form: str) -> None:
    if "locked" not in client.metadata().topics:
        client.create_topics([NewTopic("locked", 1)])
    path = form.format("locked")
    assert "This console only shows." in browser.text(path)
    fields = {"before": "0.0", "value": "x", "partition": "0"}
    assert browser.submit(path, fields).status_code == 403


@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_another_site_is_refused(editor: Browser, client: Client, form: str) -> None:
    if "forged" not in client.metadata().topics:
        client.create_topics([NewTopic("forged", 1)])
    assert editor.post(form.format("forged"), data={"before": "0.0"}).status_code == 403
