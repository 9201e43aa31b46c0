from __future__ import annotations

from kqueue.client import Client, NewTopic
from kqueue.tests.console.browser import Browser


def test_the_overview_counts_what_there_is(browser: Browser, client: Client) -> None:
    client.create_topics([NewTopic("overview-a", 2)])
    text = browser.text("/")
    metadata = client.metadata()
    assert f"Topics {len(metadata.topics)} " in text
    assert f"Partitions {sum(len(topic.partitions) for topic in metadata.topics.values())} " in text
    assert "Without a leader 0" in text
    assert metadata.cluster_id in text
    assert "up controller" in text
    assert "read-only" in text


def test_a_console_that_allows_changes_is_not_called_read_only(editor: Browser) -> None:
    assert "read-only" not in editor.text("/")
