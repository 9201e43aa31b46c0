from __future__ import annotations

from kqueue.client import Client, NewTopic, TopicPartition
from kqueue.records.builder import build_batch
from kqueue.records.record import Record
from kqueue.tests.console.browser import Browser


def test_folders_are_shown_with_the_largest_replicas(browser: Browser, client: Client) -> None:
    client.create_topics([NewTopic("large", 1)])
    client.produce({TopicPartition("large", 0): build_batch([Record(0, 0, None, b"x" * 5_000)])})
    text = browser.text("/log-folders")
    assert "Broker 1" in text
    assert "online" in text
    assert "large 0 1 5.1 kB" in text
