from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kqueue import Broker
from kqueue.client import Client, TopicPartition
from kqueue.console.pages import transactions
from kqueue.tests.client.hanging_transaction import hang
from kqueue.tests.console.browser import Browser, words

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
OPEN = "billing/1"
PAGE = "/transactions/id/billing%2F1"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker that does not verify the transactions of old producers, so that some may hang."""
    settings = {"transaction.partition.verification.enable": False, "transaction.state.log.num.partitions": 1}
    with Broker(settings=settings) as broker:
        broker.create_topic("orders", 2)
        yield broker


@pytest.fixture
def open_transaction(client: Client) -> Iterator[None]:
    """A transaction that has begun."""
    producer = client.transactions.init(OPEN, 60_000)
    client.transactions.add_partitions(producer, [ZERO, ONE])
    yield
    client.transactions.fence(OPEN)


@pytest.mark.usefixtures("open_transaction")
def test_open_transactions_are_listed_with_their_age(browser: Browser, client: Client) -> None:
    client.transactions.init("idle", 60_000)
    text = browser.text("/transactions")
    assert f"{OPEN} Ongoing 0 s 1 min" in text or f"{OPEN} Ongoing 1 s 1 min" in text
    assert "idle" not in text
    everything = browser.text("/transactions?state=all")
    assert "idle Empty – 1 min" in everything
    assert "idle" in browser.text("/transactions?state=Empty&q=IDLE")
    assert OPEN in browser.text("/transactions?state=nonsense")
    assert "No transactional id matches." in browser.text("/transactions?state=PrepareAbort&q=no-such")


def test_without_open_transactions_the_page_says_so(browser: Browser) -> None:
    assert "No transaction is open." in browser.text("/transactions")


@pytest.mark.usefixtures("open_transaction")
def test_ids_that_there_is_no_time_for_have_no_details(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "DESCRIBED_S", 0)
    assert f"{OPEN} Ongoing – –" in browser.text("/transactions")


@pytest.mark.usefixtures("open_transaction")
def test_a_transaction_shows_its_producer_and_partitions(browser: Browser) -> None:
    text = browser.text(PAGE)
    assert "State Ongoing" in text
    assert "Partitions 2" in text
    assert "orders-0, orders-1" in text
    assert "Abort" not in text
    assert browser.get("/transactions/id/nobody").status_code == 404


@pytest.mark.usefixtures("open_transaction")
def test_a_transaction_is_aborted_and_its_producer_fenced(
    editor: Browser, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "kqueue.console.audit"):
        response = editor.submit(f"{PAGE}/abort", on=PAGE)
    assert f"Aborted the transaction of {OPEN}; its producer is fenced" in words(response.text)
    assert client.transactions.describe(OPEN).state != "Ongoing"
    assert f'action="abort transaction" resource="{OPEN}"' in caplog.text


def test_aborting_creates_no_id(editor: Browser, client: Client) -> None:
    assert editor.submit("/transactions/id/mistyped/abort").status_code == 404
    assert "mistyped" not in str(client.transactions.find())


@pytest.mark.usefixtures("open_transaction")
def test_a_console_that_only_shows_aborts_nothing(browser: Browser, client: Client) -> None:
    assert browser.submit(f"{PAGE}/abort").status_code == 403
    assert client.transactions.describe(OPEN).state == "Ongoing"


def test_a_hanging_transaction_is_found_and_aborted(broker: Broker, editor: Browser) -> None:
    start = hang(broker, ZERO, 4711, 21)
    page = "/transactions/hanging?search=1&topic=orders"
    assert f"orders-0 {start} 4711 0" in editor.text(page)
    fields = {"topic": "orders", "partition": "0", "start": str(start)}
    response = editor.submit("/transactions/hanging", fields, on=page)
    assert "Aborted the transaction of producer 4711 in orders-0." in words(response.text)
    assert "No transaction hangs in 2 partitions." in editor.text(page)
    assert editor.submit("/transactions/hanging", fields, on=page).status_code == 404


@pytest.mark.parametrize(
    ("query", "sentence"),
    [("search=1&topic=none", "There is no topic"), ("search=1", "A page searches up to 1 partitions, found")],
)
def test_a_search_that_is_too_large_or_of_no_topic_is_refused(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, query: str, sentence: str
) -> None:
    monkeypatch.setattr(transactions, "SEARCHED_MAX", 1)
    response = browser.get(f"/transactions/hanging?{query}")
    assert response.status_code == 400
    assert sentence in response.text


def test_numbers_of_the_form_are_checked(editor: Browser) -> None:
    response = editor.submit("/transactions/hanging", {"topic": "orders", "partition": "x", "start": "0"})
    assert response.status_code == 400
    assert "takes a number" in response.text
