"""A picture as JSON values."""

from __future__ import annotations

from typing import Any

from kqueue.admin.snapshot import BrokerState, Snapshot
from kqueue.cli.error_texts import explain_code
from kqueue.cli.top.picture import NO_RATE, NO_TREND, Picture


def as_dict(picture: Picture) -> dict[str, Any]:
    """Return a picture that has a snapshot; an unknown value is None.

    ``requests``: None where no address of metrics was given.
    """
    snapshot = picture.snapshot
    assert snapshot is not None
    return {
        "cluster_id": snapshot.metadata.cluster_id,
        "controller": None if snapshot.metadata.controller < 0 else snapshot.metadata.controller,
        **{key: snapshot.counts[key] for key in ("partitions", "unavailable", "under_replicated", "reassigning")},
        **picture.total._asdict(),
        "brokers": [_broker(broker) for broker in snapshot.brokers],
        "topics": _topics(picture, snapshot),
        "groups": [
            {
                "group": name,
                "type": listing.type or None,
                "state": listing.state or None,
                **picture.groups.get(name, NO_TREND)._asdict(),
            }
            for name, listing in snapshot.groups.items()
        ],
        "requests": None if picture.requests is None else [row._asdict() for row in picture.requests],
        "disks": [
            {
                "broker": id,
                "folder": folder.path,
                "error": explain_code(folder.code) if folder.code else None,
                "replicas": len(folder.sizes),
                "size_bytes": folder.size,
                "usable_bytes": folder.usable_bytes,
                "total_bytes": folder.total_bytes,
            }
            for id, folders in snapshot.dirs.items()
            for folder in folders
        ],
        "problems": list(picture.problems),
    }


def _broker(broker: BrokerState) -> dict[str, Any]:
    return {
        "id": broker.id,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "state": broker.state,
        "is_controller": broker.is_controller,
        **broker.load._asdict(),
    }


def _topics(picture: Picture, snapshot: Snapshot) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "internal": topic.is_internal,
            "partitions": len(topic.partitions),
            **picture.topics.get(name, NO_RATE)._asdict(),
            "size_bytes": size.leaders if (size := snapshot.sizes.get(name)) is not None else None,
            "replicas_bytes": size.replicas if size is not None else None,
        }
        for name, topic in sorted(snapshot.metadata.topics.items())
    ]
