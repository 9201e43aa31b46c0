from __future__ import annotations

from kqueue import Broker
from kqueue.client import Client, NewTopic, TopicPartition
from kqueue.console.pages.overview import behind_count
from kqueue.tests.console.browser import Browser
from kqueue.tests.console.historian import historian


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


def test_groups_that_are_behind_are_counted_of_those_that_the_user_may_see(broker: Broker) -> None:
    partition = TopicPartition("overview-orders", 0)
    broker.create_topic(partition.topic)
    with historian(broker) as past:
        past.client.commit("overview-stuck", {partition: 0})
        past.step()
        assert behind_count(past.sampler.history, ["overview-stuck"]) == 0
        past.step({partition: 3})
        past.step()
        assert behind_count(past.sampler.history, ["overview-stuck"]) == 1
        assert behind_count(past.sampler.history, ["another"]) == 0
        assert 'href="/groups?behind=1"' in past.browser.get("/").text
        past.client.delete_group("overview-stuck")


def test_without_a_history_nothing_is_said_of_groups_that_are_behind(browser: Browser) -> None:
    assert "Groups behind" not in browser.text("/")
