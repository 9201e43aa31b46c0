from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator

import pytest

from kqueue import Broker
from kqueue.client import Client, NewTopic, PartitionMetadata, TopicMetadata, TopicPartition
from kqueue.client.metadata import NO_LEADER
from kqueue.console.pages.messages import with_leader
from kqueue.records.builder import build_batch
from kqueue.records.record import Record
from kqueue.tests.console.browser import Browser, Visit, words
from kqueue.tests.console.messages.support import TIME_MS

PAGE_BYTES_MAX = 150_000
HOSTILE = "<b>\"'&</b><script>alert(1)</script>\u202etxt.exe\x1b[2J\x00"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker of these tests: pages of others list all topics."""
    with Broker() as broker:
        yield broker


def fill(client: Client, topic: str, rows: Iterable[tuple[int, Record]], partitions: int = 1) -> None:
    """Create a topic, and append each record to its partition."""
    client.create_topics([NewTopic(topic, partitions)])
    for partition, record in rows:
        client.produce({TopicPartition(topic, partition): build_batch([record._replace(offset=0)])})


def orders(count: int, partitions: int = 1) -> list[tuple[int, Record]]:
    return [
        (
            at % partitions,
            Record(0, TIME_MS + at * 1000, b"key-%d" % at, json.dumps({"n": at, "even": at % 2 == 0}).encode()),
        )
        for at in range(count)
    ]


def links(page: str, text: str) -> list[str]:
    return [html.unescape(href) for href in re.findall(rf'<a [^>]*href="([^"]*)"[^>]*>{text}</a>', page)]


def test_topics_are_offered(browser: Browser, client: Client) -> None:
    client.create_topics([NewTopic("offered", 2)])
    assert 'href="/topics/offered/messages"' in browser.get("/messages?q=offered").text


def test_the_newest_come_first_and_older_ones_are_a_link_away(browser: Browser, client: Client) -> None:
    fill(client, "browsed", orders(25, 2), 2)
    path, seen = "/topics/browsed/messages", list[str]()
    address = path + "?count=10"
    for _ in range(3):
        page = browser.get(address).text
        seen += re.findall(r"key-(\d+)", page)
        address = path + next(iter(links(page, "Older")), "")
    assert seen == [str(at) for at in range(24, -1, -1)]
    assert links(page, "Older") == []
    newer = browser.get(path + links(page, "Newer")[0]).text
    assert re.findall(r"key-(\d+)", newer) == [str(at) for at in range(5, 15)]


@pytest.mark.parametrize(
    ("parameters", "first"),
    [("start=oldest", "0"), ("start=offset&offset=7", "7"), (f"start=time&time={TIME_MS + 4_000}", "4"),
     ("start=newest", "11"), ("newer=0.3", "3"), ("older=0.3", "2")],
)  # fmt: skip
def test_a_page_begins_where_it_is_asked_to(browser: Browser, client: Client, parameters: str, first: str) -> None:
    if "starts" not in client.metadata().topics:
        fill(client, "starts", orders(12))
    page = browser.get(f"/topics/starts/messages?{parameters}").text
    assert re.findall(r"key-(\d+)", page)[0] == first


@pytest.mark.parametrize(
    ("parameters", "found"),
    [
        ({"key": "key-7"}, ["7"]),
        ({"path": "$.n > 8"}, ["11", "10", "9"]),
        ({"text": '"n": 5'}, ["5"]),
        ({"key": "x"}, []),
    ],
)
def test_a_search_is_a_link(browser: Browser, client: Client, parameters: dict[str, str], found: list[str]) -> None:
    if "searched" not in client.metadata().topics:
        fill(client, "searched", orders(12))
    page = browser.get("/topics/searched/messages", params=parameters).text
    assert re.findall(r"<span class=\"mono value\">key-(\d+)", page) == found
    assert "of 12 records read" in words(page)
    [(name, value)] = parameters.items()
    assert f'name="{name}" type="text" value="{html.escape(value).replace("&quot;", "&#34;")}"' in page


@pytest.mark.parametrize(
    "parameters",
    ["start=x", "start=offset&offset=x", "start=time&time=x", "partition=9", "path=x", "older=x", "count=x"],
)
def test_a_wrong_parameter_is_a_message_beside_the_form(browser: Browser, client: Client, parameters: str) -> None:
    if "wrong" not in client.metadata().topics:
        client.create_topics([NewTopic("wrong", 1)])
    response = browser.get(f"/topics/wrong/messages?{parameters}")
    assert response.status_code == 400
    assert "Not valid." in response.text
    assert '<form method="get"' in response.text


def test_keys_values_headers_and_names_are_harmless(browser: Browser, client: Client) -> None:
    data = HOSTILE.encode()
    fill(client, "hostile", [(0, Record(0, TIME_MS, data, data, ((HOSTILE, data),)))])
    for path in ("/topics/hostile/messages", "/topics/hostile/messages?form=text&key_form=text",
                 "/topics/hostile/messages/0/0", "/topics/hostile/messages/0/0?form=text&key_form=text"):  # fmt: skip
        page = browser.get(path).text
        assert "<script>alert" not in page
        assert "<b>" not in page
        assert not re.search("[\x00\x1b\u202e]", page)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202etxt.exe\\x1b[2J" in page


def test_what_is_searched_for_is_harmless(browser: Browser, client: Client) -> None:
    client.create_topics([NewTopic("quiet", 1)])
    page = browser.get("/topics/quiet/messages", params={"key": HOSTILE, "path": HOSTILE, "form": HOSTILE}).text
    assert "<script>alert" not in page


@pytest.mark.parametrize("fill_byte", [b'"', b"\xff", b"<", "\u202e".encode()])
def test_pages_of_large_messages_are_small(browser: Browser, client: Client, fill_byte: bytes) -> None:
    name = f"sized-{fill_byte.hex()}"
    large, header_name = fill_byte * 100_000, fill_byte.decode(errors="replace") * 1_000
    fill(client, name, [(0, Record(0, TIME_MS, large, large, ((header_name, large[:1_000]),) * 100))])
    for _ in range(2):
        rows = [Record(at, 0, large[:600], large[:900], ((header_name, b""),)) for at in range(60)]
        client.produce({TopicPartition(name, 0): build_batch(rows)})
    for path in (f"/topics/{name}/messages?count=100", f"/topics/{name}/messages?count=50&start=oldest",
                 f"/topics/{name}/messages/0/0"):  # fmt: skip
        response = browser.get(path)
        assert response.status_code == 200
        assert len(response.content) < PAGE_BYTES_MAX


def test_a_message_is_shown_with_all_that_it_has(browser: Browser, client: Client) -> None:
    record = Record(0, TIME_MS, b"customer-7", b'{"n":12345678901234567890123}', (("trace", b"abc"), ("none", None)))
    fill(client, "one", [(0, record)])
    text = browser.text("/topics/one/messages/0/0")
    assert "Offset 0 of 0 to 0" in text
    assert "2023-11-14 22:13:20 1700000000000 ms, set by the producer" in text
    assert '{ "n": 12345678901234567890123 }' in text
    assert "trace abc 3 B none null –" in text
    assert "7b 22" in browser.text("/topics/one/messages/0/0?form=hex")


def test_a_value_is_a_download(browser: Browser, client: Client) -> None:
    value = bytes(range(256)) * 1_000
    fill(client, "loaded", [(0, Record(0, TIME_MS, None, value))])
    response = browser.get("/topics/loaded/messages/0/0/value")
    assert response.content == value
    assert response.headers["content-disposition"] == "attachment; filename*=utf-8''loaded-0-0.value"
    assert response.headers["content-type"] == "application/octet-stream"
    assert browser.get("/topics/loaded/messages/0/0/key").status_code == 404
    assert browser.get("/topics/loaded/messages/0/0/other").status_code == 404
    page = browser.get("/topics/loaded/messages/0/0").text
    assert "the download has all 256,000 bytes" in words(page)
    assert len(words(page)) < 40_000


@pytest.mark.parametrize("path", ["/topics/few/messages/0/5", "/topics/few/messages/7/0", "/topics/few/messages/0/-1"])
def test_what_is_not_there_is_not_found(browser: Browser, client: Client, path: str) -> None:
    if "few" not in client.metadata().topics:
        fill(client, "few", orders(2))
    assert browser.get(path).status_code == 404


def test_a_topic_that_is_not_there_is_not_found(broker: Broker, visit: Visit) -> None:
    browser = visit(broker.bootstrap, client={"missing_topic_ms": 60})
    assert browser.get("/topics/no-such-topic/messages").status_code == 404
    response = browser.get("/topics/%3Cscript%3E/messages")
    assert 400 <= response.status_code < 500
    assert "<script>/" not in response.text


def test_partitions_without_a_leader_are_not_waited_for() -> None:
    partitions = {0: PartitionMetadata(1), 1: PartitionMetadata(NO_LEADER), 2: PartitionMetadata(2)}
    topic = TopicMetadata("parted", bytes(16), partitions)
    assert with_leader(topic, [0, 1, 2]) == [0, 2]
    assert with_leader(topic, [1]) == []


def test_following_renews_the_newest(browser: Browser, client: Client) -> None:
    fill(client, "followed", orders(2))
    page = browser.get("/topics/followed/messages").text
    assert "data-refresh" not in page
    [follow] = links(page, "Follow the newest")
    assert '<div id="messages" data-refresh="3">' in browser.get("/topics/followed/messages" + follow).text


def test_a_console_that_only_shows_offers_no_change(browser: Browser, editor: Browser, client: Client) -> None:
    fill(client, "shown", orders(1))
    for path in ("/topics/shown/messages", "/topics/shown/messages/0/0"):
        assert "delete-messages" not in browser.get(path).text
        assert "delete-messages" in editor.get(path).text


def test_topics_of_many_partitions_have_pages_of_them(browser: Browser, client: Client) -> None:
    client.create_topics([NewTopic("wide", 120)])
    client.produce({TopicPartition("wide", 110): build_batch([Record(0, TIME_MS, b"far", b"x")])})
    page = browser.get("/topics/wide/messages").text
    assert "Partitions 0 to 99 of 120." in words(page)
    page = browser.get("/topics/wide/messages" + links(page, "Next 100")[0]).text
    assert "Partitions 100 to 119 of 120." in words(page)
    assert "far" in page
