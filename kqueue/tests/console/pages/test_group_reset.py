from __future__ import annotations

import html
import json
import logging
import re
from collections.abc import Iterator

import pytest

from kqueue import Broker
from kqueue.client import Client, ClientOptions, TopicPartition
from kqueue.client.routing import Router
from kqueue.tests.client.group_member import SETTINGS, Member
from kqueue.tests.client.serving import batch
from kqueue.tests.console.browser import Browser, Visit, words
from kqueue.tests.tables import for_each

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
RESET = "/groups/billing/reset"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as broker:
        broker.create_topic("orders", 2)
        with Client(broker.bootstrap) as client:
            client.produce({ZERO: batch([b"x"] * 10), ONE: batch([b"x"] * 5)})
        yield broker


@pytest.fixture
def group(client: Client) -> str:
    client.commit("billing", {ZERO: 6, ONE: 5})
    return "billing"


def offsets(client: Client, group: str = "billing") -> list[int]:
    committed = client.committed(group)
    return [committed[one].offset for one in (ZERO, ONE)]


def plan_of(browser: Browser, query: str) -> str:
    match = re.search(r'name="plan" value="([^"]*)"', browser.get(f"{RESET}?{query}").text)
    assert match is not None
    return html.unescape(match[1])


@pytest.mark.usefixtures("group")
def test_the_preview_says_what_is_read_again_and_changes_nothing(editor: Browser, client: Client) -> None:
    text = editor.text(f"{RESET}?kind=offset&offset=2")
    assert "orders 0 0–10 6 2 0 4 8" in text
    assert "orders 1 0–5 5 2 0 3 3" in text
    assert "7 records will be read a second time." in text
    assert offsets(client) == [6, 5]


@pytest.mark.usefixtures("group")
def test_the_preview_says_what_is_skipped(editor: Browser) -> None:
    text = editor.text(f"{RESET}?kind=latest&topic=orders&partitions=0")
    assert "orders 0 0–10 6 10 4 0 0" in text
    assert "4 records will not be read by this group." in text
    assert "orders 1 " not in text


@pytest.mark.parametrize(
    ("query", "after"),
    [
        ("kind=earliest", [0, 0]),
        ("kind=latest", [10, 5]),
        ("kind=offset&offset=-2", [8, 3]),
        ("kind=shift&shift=-1", [5, 4]),
        ("kind=time&time=2001-01-01T00:00", [0, 0]),
        ("kind=time&time=2201-01-01T00:00:00", [10, 5]),
        ("kind=earliest&topic=orders&partitions=1", [6, 0]),
    ],
)
@pytest.mark.usefixtures("group")
def test_what_was_previewed_is_applied(editor: Browser, client: Client, query: str, after: list[int]) -> None:
    response = editor.submit(RESET, {"plan": plan_of(editor, query)})
    assert "offsets of billing." in words(response.text)
    assert offsets(client) == after


@pytest.mark.usefixtures("group")
def test_a_reset_is_a_line_of_the_audit(editor: Browser, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kqueue.console.audit"):
        editor.submit(RESET, {"plan": plan_of(editor, "kind=earliest")})
    assert 'action="reset offsets" resource="billing"' in caplog.text
    assert 'offsets="orders-0=0, orders-1=0"' in caplog.text


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("kind=nowhere", "Choose where to move the offsets to."),
        ("kind=offset&offset=x", "Write the offset as a whole number"),
        ("kind=shift", "Write the number of records as a whole number"),
        ("kind=time&time=soon", "Write the time as 2026-01-31T12:00 (UTC)"),
        ("kind=earliest&topic=none", "There is no topic 'none'."),
        ("kind=earliest&topic=orders&partitions=0,9", "orders has 2 of them, from 0 on"),
        ("kind=earliest&partitions=0", "Choose a topic to name partitions of it."),
    ],
)
@pytest.mark.usefixtures("group")
def test_a_field_that_is_not_valid_is_named_beside_the_form(editor: Browser, query: str, sentence: str) -> None:
    response = editor.get(f"{RESET}?{query}")
    assert response.status_code == 400
    assert sentence in words(response.text)
    assert "Move to" in response.text
    assert 'name="plan"' not in response.text


@for_each(
    "plan", ["", "x", "{}", "[]", "[[1,0,0]]", '[["orders",0,-1]]', '[["orders",-1,0]]', '[["orders",0]]', "[" * 2000]
)
@pytest.mark.usefixtures("group")
def test_a_plan_that_no_preview_made_is_refused(editor: Browser, client: Client, plan: str) -> None:
    response = editor.submit(RESET, {"plan": plan})
    assert response.status_code == 400
    assert "Make its preview again." in response.text
    assert offsets(client) == [6, 5]


@pytest.mark.usefixtures("group")
def test_a_partition_that_is_gone_since_the_preview_is_refused(editor: Browser, client: Client) -> None:
    response = editor.submit(RESET, {"plan": json.dumps([["gone", 0, 1]])})
    assert response.status_code == 409
    assert "Gone-0 does not exist any more" in response.text
    assert offsets(client) == [6, 5]


def test_a_group_with_members_is_refused_as_by_the_command(editor: Browser, broker: Broker) -> None:
    router = Router(ClientOptions(bootstrap=broker.bootstrap))
    member = Member(router, "consumer")
    response = editor.get("/groups/consumer/reset?kind=earliest&topic=orders")
    assert response.status_code == 409
    assert "has members (its state is" in response.text
    response = editor.submit("/groups/consumer/reset", {"plan": json.dumps([["orders", 0, 1]])})
    assert response.status_code == 409
    assert "stop its consumers first" in response.text
    member.beat(-1)
    router.close()


def test_a_share_group_gets_new_start_offsets(editor: Browser, broker: Broker, client: Client) -> None:
    router = Router(ClientOptions(bootstrap=broker.bootstrap))
    member = Member(router, "share")
    member.wait_for_partitions(2)
    member.beat(-1)
    router.close()
    assert "of the share group" in editor.text("/groups/share/reset")
    response = editor.submit("/groups/share/reset", {"plan": json.dumps([["orders", 0, 4]])})
    assert "Reset 1 offsets of share." in words(response.text)
    assert client.share_offsets("share")[ZERO].start == 4
    assert "orders 0 4 10 6" in editor.text("/groups/share")


@pytest.mark.usefixtures("group")
def test_a_console_that_only_shows_previews_and_does_not_apply(broker: Broker, visit: Visit, client: Client) -> None:
    browser = visit(broker.bootstrap)
    text = browser.text(f"{RESET}?kind=earliest")
    assert "orders 0 0–10 6 0 0 6 10" in text
    assert "start it with --allow-changes" in text
    assert browser.submit(RESET, {"plan": '[["orders",0,0]]'}).status_code == 403
    assert offsets(client) == [6, 5]
