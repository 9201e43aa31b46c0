"""Pending values: the latest write of a key counts, whenever its transaction commits."""

from __future__ import annotations

from kqueue.groups.log.open_transactions import OpenTransactions


def complete(transactions: OpenTransactions[int, str, int], producer: int, *, committed: bool = True) -> dict[str, int]:
    """Return what becomes current."""
    completed = transactions.complete(producer, committed=committed)
    return {one.key: one.value for one in completed if one.is_current}


def test_values_are_pending_until_their_transaction_ends() -> None:
    transactions: OpenTransactions[int, str, int] = OpenTransactions()
    assert not transactions
    transactions.add(1, "a", 10)
    transactions.add(2, "b", 20)
    assert "a" in transactions
    assert transactions.find(1, "a") == 10
    assert transactions.find(2, "a") is None
    assert transactions.find(3, "a") is None
    assert complete(transactions, 1) == {"a": 10}
    assert "a" not in transactions
    assert complete(transactions, 1) == {}, "a second marker ends nothing"
    assert complete(transactions, 2, committed=False) == {}
    assert not transactions


def test_a_producers_later_value_replaces_its_earlier_one() -> None:
    transactions: OpenTransactions[int, str, int] = OpenTransactions()
    assert transactions.add(1, "a", 10) is None
    assert transactions.add(1, "a", 11) == 10
    assert complete(transactions, 1) == {"a": 11}


def test_a_write_without_a_transaction_supersedes_but_the_key_stays_pending() -> None:
    transactions: OpenTransactions[int, str, int] = OpenTransactions()
    transactions.add(1, "a", 10)
    transactions.add(2, "a", 20)
    transactions.supersede("a")
    transactions.supersede("unknown")
    assert "a" in transactions
    assert complete(transactions, 2) == {}
    transactions.add(1, "a", 12)
    assert complete(transactions, 1) == {"a": 12}, "written after the one that superseded it"


def test_later_write_of_two_transactions_counts() -> None:
    for first, second in ((1, 2), (2, 1)):
        transactions: OpenTransactions[int, str, int] = OpenTransactions()
        transactions.add(1, "a", 10)
        transactions.add(2, "a", 20)
        current: dict[str, int] = {}
        current.update(complete(transactions, first))
        current.update(complete(transactions, second))
        assert current == {"a": 20}


def test_an_aborted_transaction_supersedes_nothing() -> None:
    transactions: OpenTransactions[int, str, int] = OpenTransactions()
    transactions.add(1, "a", 10)
    transactions.add(2, "a", 20)
    assert complete(transactions, 2, committed=False) == {}
    assert complete(transactions, 1) == {"a": 10}


def test_a_deleted_key_is_pending_no_more_until_it_is_written_again() -> None:
    transactions: OpenTransactions[int, str, int] = OpenTransactions()
    transactions.add(1, "a", 10)
    transactions.add(2, "a", 20)
    assert transactions.discard("a") == [10, 20]
    assert transactions.discard("a") == []
    assert "a" not in transactions
    assert complete(transactions, 1) == {}
    transactions.add(2, "a", 21)
    assert complete(transactions, 2) == {"a": 21}


def test_a_completion_may_take_its_time() -> None:
    transactions: OpenTransactions[int, str, int] = OpenTransactions()
    for key in "abcd":
        transactions.add(1, key, 10)
    completion = transactions.complete(1, committed=True)
    current = {next(completion).key}
    transactions.supersede("a")
    transactions.add(1, "b", 11)  # the producer's next transaction
    transactions.discard("c")
    current.update(one.key for one in completion if one.is_current)
    assert current == {"b", "d"}
    assert transactions.pending() == [(1, "b", 11, False)]


def test_pending_entries_are_listed_in_write_order() -> None:
    transactions: OpenTransactions[int, str, int] = OpenTransactions()
    transactions.add(1, "a", 10)
    transactions.add(2, "a", 20)
    transactions.supersede("a")
    transactions.add(1, "b", 11)
    assert transactions.pending() == [(1, "a", 10, True), (2, "a", 20, True), (1, "b", 11, False)]
