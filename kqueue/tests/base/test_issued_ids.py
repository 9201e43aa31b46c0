from __future__ import annotations

import pytest

from kqueue.base import issued_ids
from kqueue.base.issued_ids import IssuedIds


def test_producer_ids_are_reserved_once_whatever_the_data_say() -> None:
    issued = IssuedIds()
    assert issued.reserve_producer_ids(5000, 1000) == 5000
    assert issued.reserve_producer_ids(0, 1000) == 6000
    assert issued.for_copy().reserve_producer_ids(1000, 1000) == 7000
    assert IssuedIds().reserve_producer_ids(0, 1000) == 0, "it is shared with no other"


def test_the_epoch_of_data_that_continue_stays() -> None:
    issued = IssuedIds()
    assert issued.loaded_producer_epoch("a", 7, -1) == -1
    assert issued.loaded_producer_epoch("a", 7, 3) == 3
    issued.note_producer_epoch("a", 7, 4)
    assert issued.loaded_producer_epoch("a", 7, 4) == 4
    assert issued.loaded_producer_epoch("a", 8, 0) == 0


def test_the_epoch_of_data_that_went_back_is_one_that_was_never_issued() -> None:
    issued = IssuedIds()
    issued.note_producer_epoch("a", 7, 10)
    issued.note_producer_epoch("a", 7, 9)
    assert issued.loaded_producer_epoch("a", 7, 3) == 11
    assert issued.loaded_producer_epoch("a", 7, 3) == 12


def test_data_of_another_cluster_have_epochs_of_their_own() -> None:
    issued = IssuedIds()
    issued.producer_epochs("a").note_producer_epoch(7, 10)
    assert issued.producer_epochs("b").loaded_producer_epoch(7, 3) == 3
    assert issued.producer_epochs("a").loaded_producer_epoch(7, 3) == 11


def test_a_copy_does_not_have_the_epoch_of_its_original() -> None:
    issued = IssuedIds()
    copy = issued.for_copy()
    assert copy.loaded_producer_epoch("a", 7, 3) == 3, "nothing in this process had it"
    assert copy.loaded_producer_epoch("a", 7, 3) == 4
    assert copy.loaded_producer_epoch("a", 8, -1) == -1


def test_leader_epochs_rise_after_an_unclean_stop_and_in_each_copy() -> None:
    issued = IssuedIds()
    assert issued.begin_leader_epoch("a", 0, is_unclean=False) == 0
    assert issued.begin_leader_epoch("a", 0, is_unclean=False) == 0
    assert issued.begin_leader_epoch("a", 0, is_unclean=True) == 1
    assert issued.for_copy().begin_leader_epoch("a", 1, is_unclean=False) == 2
    assert issued.begin_leader_epoch("a", 1, is_unclean=True) == 3
    assert issued.begin_leader_epoch("b", 0, is_unclean=False) == 0


def test_remembered_epochs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issued_ids, "KEPT_MAX", 2)
    issued = IssuedIds()
    for producer_id in range(3):
        issued.note_producer_epoch("a", producer_id, 5)
    assert [issued.loaded_producer_epoch("a", producer_id, 0) for producer_id in (1, 2)] == [6, 6]
    assert issued.loaded_producer_epoch("a", 0, 0) == 0
