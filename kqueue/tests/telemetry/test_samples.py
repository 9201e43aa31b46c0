from __future__ import annotations

from kqueue.telemetry.samples import NameBound, Samples
from kqueue.testing.simulation import Simulation


def test_values_of_the_same_labels_are_summed_up_where_they_are_counted() -> None:
    samples = Samples()
    samples.count("kqueue_connections", 1, "A")
    samples.count("kqueue_connections", 1, "A")
    samples.add("kqueue_ready", 0)
    samples.add("kqueue_ready", 1)
    assert samples.values == {"kqueue_connections": {("A",): 2}, "kqueue_ready": {(): 1}}


def test_names_beyond_the_bound_have_no_label_and_the_kind_is_logged_once(caplog: object) -> None:
    bound = NameBound(2)
    assert list(bound.named("groups", ["a", "b", "c"])) == [("a", "a"), ("b", "b"), (None, "c")]
    assert list(bound.named("groups", ["a"])) == [("a", "a")]


def test_sizes_of_disks_are_read_once_and_a_storage_without_a_disk_has_none() -> None:
    samples = Samples()
    samples.folders, _ = Simulation().broker.logs.list_log_dirs(())
    samples.read_disks()
    samples.read_disks()
    assert not samples.values["kqueue_folder_reserve_bytes"]
