from __future__ import annotations

from kqueue.client import Client, NewTopic, TopicPartition
from kqueue.records.builder import build_batch
from kqueue.records.record import Record
from kqueue.tests.console.browser import Browser


def test_topics_are_listed_with_partitions_records_and_state(browser: Browser, client: Client) -> None:
    client.create_topics([NewTopic("listed-a", 3), NewTopic("listed-b", 1)])
    client.produce({TopicPartition("listed-a", 1): build_batch([Record(0, 0, None, b"x"), Record(1, 0, None, b"y")])})
    text = browser.text("/topics?q=listed-")
    assert "listed-a 3 1 2 in sync listed-b 1 1 0 in sync" in text
    assert "1–2 of 2 topics" in text


def test_a_filter_that_finds_nothing_says_so(browser: Browser, client: Client) -> None:
    client.create_topics([NewTopic("listed-c", 1)])
    assert "No topic matches." in browser.text("/topics?q=no-such-topic&state=leaderless")


def test_the_filter_is_escaped(browser: Browser) -> None:
    page = browser.get("/topics", params={"q": '"><script>alert(1)</script>'}).text
    assert "<script>alert" not in page
    assert 'value="&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"' in page


def test_internal_topics_are_shown_when_asked_for(browser: Browser, client: Client) -> None:
    client.commit("listed-group", {})
    client.create_topics([NewTopic("listed-d", 1)])
    client.commit("listed-group", {TopicPartition("listed-d", 0): 0})
    assert "__consumer_offsets" not in browser.text("/topics")
    assert "__consumer_offsets" in browser.text("/topics?internal=1")
