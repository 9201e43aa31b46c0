from __future__ import annotations

import json

from kqueue.cli.top.report import as_dict
from kqueue.tests.cli.top.pictures import EVIL, picture, with_requests


def test_a_picture_is_json_with_null_for_what_is_unknown() -> None:
    report = json.loads(json.dumps(as_dict(picture())))
    assert (report["cluster_id"], report["controller"], report["under_replicated"]) == ("the-cluster", 1, 1)
    assert (report["records_per_s"], report["requests"], report["problems"]) == (107.0, None, [])
    assert report["brokers"][1]["state"] == "fenced"
    topics = {topic["name"]: topic for topic in report["topics"]}
    assert topics["orders"] == {
        "name": "orders",
        "internal": False,
        "partitions": 1,
        "records_per_s": 100.0,
        "bytes_per_s": None,
        "size_bytes": 2_500_000,
        "replicas_bytes": 5_000_000,
    }
    assert topics[EVIL]["size_bytes"] is None
    groups = {group["group"]: group for group in report["groups"]}
    assert groups["mailer"] == {
        "group": "mailer",
        "type": "classic",
        "state": "Stable",
        "lag": 30,
        "consumed_per_s": None,
        "growth_per_s": -10.0,
        "caught_up_s": 3.0,
    }
    assert [(disk["folder"], disk["error"] is None, disk["usable_bytes"]) for disk in report["disks"]] == [
        ("/data", True, 4_000),
        ("/lost", False, None),
    ]


def test_requests_are_a_list_where_metrics_were_read() -> None:
    requests = as_dict(with_requests())["requests"]
    assert [row["api"] for row in requests] == ["Fetch", "Produce", "Metadata"]
    assert requests[0]["handling_high_s"] == 0.0009
