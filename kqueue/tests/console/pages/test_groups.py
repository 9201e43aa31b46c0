from __future__ import annotations

import logging
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from kqueue import Broker
from kqueue.api import version_profiles
from kqueue.client import Client, ClientOptions, TopicPartition
from kqueue.client.routing import Router
from kqueue.console.pages import groups
from kqueue.tests.client.group_member import SETTINGS, Member
from kqueue.tests.client.serving import batch
from kqueue.tests.console.browser import Browser, Visit, words
from kqueue.tests.console.historian import Historian, historian
from kqueue.tests.tables import for_each

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
HOSTILE = '<script>alert(1)</script>"&'


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as broker:
        broker.create_topic("orders", 2)
        with Client(broker.bootstrap) as client:
            client.produce({ZERO: batch([b"x"] * 10), ONE: batch([b"x"] * 5)})
        yield broker


@pytest.fixture
def past(broker: Broker) -> Iterator[Historian]:
    with historian(broker) as past:
        yield past


def test_which_group_is_behind_and_since_when_is_said_first(past: Historian) -> None:
    past.client.commit("stuck", {ZERO: 10, ONE: 5})
    past.client.commit("quick", {ZERO: 10, ONE: 5})
    past.step()
    past.step({ZERO: 30})
    past.client.commit("quick", {ZERO: 40})
    past.step()
    text = past.browser.text("/groups")
    assert "1 group of" in text
    assert "stuck 30 to read, for 9 min (since" in text
    rows = text[text.index("Behind since") :]
    assert rows.index("stuck") < rows.index("quick")
    assert "grows by" in rows
    only = past.browser.text("/groups?behind=1")
    assert "quick" not in only


def test_a_group_that_keeps_up_is_said_too(past: Historian) -> None:
    for name in past.client.groups():
        past.client.delete_group(name)
    past.client.commit("quick", {ZERO: end(past.client, ZERO)})
    past.step()
    assert "All 1 group keep up" in past.browser.text("/groups")


def end(client: Client, partition: TopicPartition) -> int:
    offset = client.offsets({partition: -1})[partition].offset
    assert offset is not None
    return offset


def test_without_a_history_the_lag_is_read_and_the_page_says_what_it_lacks(broker: Broker, visit: Visit) -> None:
    browser = visit(broker.bootstrap)
    with Client(broker.bootstrap) as client:
        client.commit("plain", {ZERO: end(client, ZERO) - 3})
    text = browser.text("/groups?q=plain")
    assert "plain classic Empty 0 3" in text
    assert "keeps no history" in text
    assert "plain" in browser.text("/groups/plain")


def test_groups_are_filtered_and_sorted_on_the_server(past: Historian) -> None:
    for number, offset in enumerate((0, 8, 4)):
        past.client.commit(f"sorted-{number}", {ZERO: offset})
    past.step()
    past.step()

    def order(query: str) -> list[str]:
        text = past.browser.text(f"/groups?q=sorted-&{query}")
        text = text[text.rindex("Behind since") :]
        return [word for word in text.split() if word.startswith("sorted-")]

    assert order("sort=name") == ["sorted-0", "sorted-1", "sorted-2"]
    assert order("sort=name&order=desc") == ["sorted-2", "sorted-1", "sorted-0"]
    assert order("sort=lag&order=desc") == ["sorted-0", "sorted-2", "sorted-1"]
    assert order("sort=lag") == ["sorted-1", "sorted-2", "sorted-0"]
    assert order("sort=nonsense") == order("sort=behind") == ["sorted-0", "sorted-2", "sorted-1"]
    assert "No group matches." in past.browser.text("/groups?q=sorted-&type=share")
    assert order("state=Empty&sort=since")
    page = past.browser.get("/groups?q=sorted-&sort=lag&order=desc").text
    assert 'aria-sort="descending"' in page
    assert "?q=sorted-&amp;sort=lag" in page


def test_a_group_shows_its_partitions_with_their_history(past: Historian) -> None:
    past.client.commit("shown", {ZERO: 1, ONE: 2})
    past.step()
    past.step({ZERO: 7})
    past.step()
    page = past.browser.get("/groups/shown").text
    text = words(page)
    lag = end(past.client, ZERO) - 1
    assert f"orders 0 1 {lag + 1} {lag}" in text
    assert "Behind since" in text
    assert "has no members: no consumer reads for it" in text
    assert page.count('class="spark"') == 2
    assert page.count('class="chart"') == 2
    assert 'href="?range=2"' in page
    assert past.browser.get("/groups/shown?range=2").text.count('class="chart"') == 2


@for_each("type", ["consumer", "share", "streams"])
def test_members_of_groups_of_each_type_have_epochs_and_assignments(past: Historian, broker: Broker, type: str) -> None:
    router = Router(ClientOptions(bootstrap=broker.bootstrap, client_id="watcher"))
    member = Member(router, type)
    if type == "share":
        member.wait_for_partitions(2)
    past.step()
    try:
        text = past.browser.text(f"/groups/{type}")
        assert f"Type {type} Epoch" in text
        assert "watcher" in text
        if type == "share":
            assert "Start offset" in text
            assert "Done ahead" in text
        row = past.browser.text(f"/groups?type={type}")
        assert f"{type} {type} " in row[row.rindex("Behind since") :]
    finally:
        member.beat(-1)
        router.close()


def test_names_of_groups_can_not_be_markup(past: Historian) -> None:
    past.client.commit(HOSTILE, {ZERO: 0})
    past.step()
    past.step()
    for path in ("/groups", "/groups?q=script", f"/groups/{quote(HOSTILE, safe='')}"):
        page = past.browser.get(path).text
        assert "alert(1)" in page
        assert "<script>alert" not in page
    past.client.delete_group(HOSTILE)


def test_a_group_that_does_not_exist_is_404(browser: Browser) -> None:
    response = browser.get("/groups/nobody")
    assert response.status_code == 404
    assert "There is no group &#39;nobody&#39;." in response.text


def test_a_group_is_deleted_with_a_line_of_the_audit(past: Historian, caplog: pytest.LogCaptureFixture) -> None:
    past.client.commit("doomed/eu", {ZERO: 1})
    asked = past.browser.text("/groups/doomed%2Feu/delete")
    assert "It loses its committed offsets of 1 partition, of orders." in asked
    with caplog.at_level(logging.INFO, "kqueue.console.audit"):
        response = past.browser.submit("/groups/doomed%2Feu/delete")
    assert "Deleted the group doomed/eu." in words(response.text)
    assert "doomed/eu" not in past.client.groups()
    assert 'action="delete group" resource="doomed/eu"' in caplog.text


def test_a_group_with_members_is_not_deleted(past: Historian, broker: Broker) -> None:
    router = Router(ClientOptions(bootstrap=broker.bootstrap))
    member = Member(router, "consumer")
    response = past.browser.submit("/groups/consumer/delete")
    assert response.status_code == 409
    assert "consumer" in past.client.groups()
    member.beat(-1)
    router.close()


def test_a_console_that_only_shows_offers_no_change(broker: Broker, visit: Visit) -> None:
    browser = visit(broker.bootstrap)
    with Client(broker.bootstrap) as client:
        client.commit("kept", {ZERO: 1})
        page = browser.text("/groups/kept")
        assert "Delete" not in page
        assert "Reset offsets" not in page
        assert browser.submit("/groups/kept/delete").status_code == 403
        assert "kept" in client.groups()


def test_the_page_waits_no_longer_than_the_first_sample_may_take(
    broker: Broker, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "FIRST_SAMPLE_S", 30)
    browser = visit(broker.bootstrap, history_interval_ms=3_600_000)
    assert "Groups" in browser.text("/groups")


@for_each("version", version_profiles.VERSIONS)
def test_brokers_of_other_versions_have_the_same_pages(version: str) -> None:
    with Broker(as_version=version) as broker:
        broker.create_topic("orders")
        with historian(broker) as past:
            past.step({ZERO: 5})
            past.client.commit("billing", {ZERO: 1})
            past.step()
            past.step()
            assert past.sampler.history.latest.problems == []
            assert "1 group of 1 is behind" in past.browser.text("/groups")
            assert "orders 0 1 5 4" in past.browser.text("/groups/billing")
            assert "orders 0 0–5 1 0 0 1 5" in past.browser.text("/groups/billing/reset?kind=earliest")
            past.browser.submit("/groups/billing/reset", {"plan": '[["orders",0,3]]'})
            assert "orders 0 3 5 2" in past.browser.text("/groups/billing")
            assert past.browser.get("/charts").status_code == 200
            status = past.browser.get("/transactions").status_code
            assert status == (501 if version == "2.8" else 200)
            past.browser.submit("/groups/billing/delete")
            assert "There are no groups yet." in past.browser.text("/groups")
