from __future__ import annotations

import logging

import pytest

from kqueue import Broker
from kqueue.client import Client, NewTopic, TopicPartition
from kqueue.console.pages.topics import parse_settings, whole_number
from kqueue.records.builder import build_batch
from kqueue.records.record import Record
from kqueue.tests.console.browser import Browser, words
from kqueue.tests.console.historian import historian


def test_topics_are_listed_with_partitions_records_size_and_state(browser: Browser, client: Client) -> None:
    client.create_topics([NewTopic("listed-a", 3), NewTopic("listed-b", 1)])
    client.produce({TopicPartition("listed-a", 1): build_batch([Record(0, 0, None, b"x"), Record(1, 0, None, b"y")])})
    text = browser.text("/topics?q=listed-")
    assert "listed-a 3 1 2 77 B in sync listed-b 1 1 0 0 B in sync" in text
    assert "1–2 of 2 topics" in text


def test_a_filter_that_finds_nothing_says_so(browser: Browser, client: Client) -> None:
    client.create_topics([NewTopic("listed-c", 1)])
    assert "No topic matches." in browser.text("/topics?q=no-such-topic&state=leaderless")


def test_the_filter_is_escaped(browser: Browser) -> None:
    page = browser.get("/topics", params={"q": '"><script>alert(1)</script>'}).text
    assert "<script>alert" not in page
    assert 'value="&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"' in page


def test_internal_topics_are_shown_when_asked_for(browser: Browser, client: Client) -> None:
    client.create_topics([NewTopic("listed-d", 1)])
    client.commit("listed-group", {TopicPartition("listed-d", 0): 0})
    assert "__consumer_offsets" not in browser.text("/topics")
    assert "__consumer_offsets" in browser.text("/topics?internal=1")


def test_one_topic_has_its_partitions_with_offsets(browser: Browser, client: Client) -> None:
    client.create_topics([NewTopic("one.topic", 2)])
    client.produce({TopicPartition("one.topic", 1): build_batch([Record(0, 0, None, b"x")])})
    text = browser.text("/topics/one.topic")
    assert "0 1 1 0 0 0 0 B in sync 1 1 1 0 1 1" in text
    assert "Add partitions" not in text


@pytest.mark.parametrize("path", ["no-such", "..%2Fbrokers", "%3Cscript%3E", "a%20b", "x" * 300])
def test_a_topic_that_does_not_exist_is_a_404(browser: Browser, path: str) -> None:
    for below in ("", "/settings", "/partitions", "/delete"):
        response = browser.get(f"/topics/{path}{below}")
        assert response.status_code == 404, below
        assert "<script>" not in response.text


def test_a_topic_is_created_with_settings(editor: Browser, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kqueue.console.audit"):
        response = editor.submit(
            "/create-topic",
            {"name": "made", "partitions": "2", "settings": "retention.ms = 60000\n\ncleanup.policy=compact"},
        )
    assert response.url.path == "/topics/made"
    assert "Created topic made." in response.text
    assert len(client.metadata(["made"]).topics["made"].partitions) == 2
    assert 'action="create topic" resource="made"' in caplog.text
    assert "retention.ms" in editor.text("/topics/made/settings?changed=1")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": "a b"}, "a b"),
        ({"name": "x", "partitions": "0"}, "whole number from 1 on"),
        ({"name": "x", "partitions": "٣"}, "whole number from 1 on"),
        ({"name": "x", "settings": "no-equals"}, "NAME=VALUE"),
        ({"name": "x", "settings": "retention.ms=soon"}, "retention.ms"),
        ({"name": "x", "settings": "no.such.setting=1"}, "no.such.setting"),
    ],
)
def test_a_topic_that_is_refused_keeps_what_was_typed(editor: Browser, fields: dict[str, str], reason: str) -> None:
    response = editor.submit("/create-topic", fields)
    assert response.status_code == 400
    assert reason in words(response.text)
    assert "Create topic" in response.text
    for value in fields.values():
        assert value in response.text


def test_a_topic_that_exists_is_a_conflict(editor: Browser, client: Client) -> None:
    client.create_topics([NewTopic("twice", 1)])
    assert editor.submit("/create-topic", {"name": "twice"}).status_code == 409


def test_partitions_are_added(editor: Browser, client: Client) -> None:
    client.create_topics([NewTopic("grown", 2)])
    refused = editor.submit("/topics/grown/partitions", {"count": "2"})
    assert refused.status_code == 400
    assert "give a larger number" in refused.text
    response = editor.submit("/topics/grown/partitions", {"count": "4"})
    assert "Topic grown now has 4 partitions." in response.text
    assert len(client.metadata(["grown"]).topics["grown"].partitions) == 4


def test_a_topic_is_deleted_if_its_name_is_typed(editor: Browser, client: Client) -> None:
    client.create_topics([NewTopic("unloved", 1)])
    refused = editor.submit("/topics/unloved/delete", {"confirmed": "unlove"})
    assert refused.status_code == 400
    assert "Nothing was deleted." in refused.text
    assert "unloved" in client.metadata().topics
    response = editor.submit("/topics/unloved/delete", {"confirmed": "unloved"})
    assert "Deleted topic unloved." in response.text
    assert "unloved" not in client.metadata().topics


def test_a_read_only_console_changes_nothing(browser: Browser, client: Client) -> None:
    client.create_topics([NewTopic("kept", 1)])
    for path, fields in {
        "/create-topic": {"name": "not-made"},
        "/topics/kept/delete": {"confirmed": "kept"},
        "/topics/kept/partitions": {"count": "9"},
        "/topics/kept/settings/retention.ms": {"act": "set", "value": "1"},
    }.items():
        assert browser.submit(path, fields).status_code == 403
    metadata = client.metadata()
    assert len(metadata.topics["kept"].partitions) == 1
    assert "not-made" not in metadata.topics


def test_numbers_and_settings_are_bounded() -> None:
    assert whole_number("", "partitions") == -1
    for text in ("-1", "1.5", "9" * 30, "2147483648"):
        with pytest.raises(ValueError, match="partitions"):
            whole_number(text, "partitions")
    with pytest.raises(ValueError, match="twice"):
        parse_settings("a=1\na=2")
    with pytest.raises(ValueError, match="up to 100"):
        parse_settings("\n".join(f"a{number}=1" for number in range(101)))
    assert parse_settings("a = b=c \n") == {"a": "b=c"}


def test_growth_is_shown_where_the_console_keeps_a_history(broker: Broker, client: Client) -> None:
    client.create_topics([NewTopic("growing-a", 1)])
    with historian(broker) as past:
        past.step({TopicPartition("growing-a", 0): 100})
        past.step({TopicPartition("growing-a", 0): 50})
        listed, shown = past.browser.text("/topics?q=growing-a"), past.browser.text("/topics/growing-a")
    assert "growing-a 1 1 150" in listed
    assert "5 records/s" in listed
    assert "Written 5 records/s" in shown
    assert "Growth Records written" in shown


def test_without_a_history_there_is_no_growth(browser: Browser, client: Client) -> None:
    client.create_topics([NewTopic("growing-b", 1)])
    assert "Written" not in browser.text("/topics?q=growing-b")
    assert "Growth" not in browser.text("/topics/growing-b")
