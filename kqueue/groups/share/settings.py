"""Settings of the membership of share groups (KIP-932), and their bounds for single groups.

What concerns records is in `kqueue.share.config`.
"""

from __future__ import annotations

from kqueue.base.settings import Scope, Setting, SettingType, Validator, at_least, between


def _row(name: str, default: int, low: int, doc: str) -> Setting:
    return Setting(name, SettingType.INT, default, at_least(low), Scope.BROKER, doc)


SETTINGS: tuple[Setting, ...] = (
    _row("group.share.session.timeout.ms", 45_000, 1, "Time after which a silent member of a share group is removed."),
    _row("group.share.min.session.timeout.ms", 45_000, 1, "Minimum session timeout of a share group."),
    _row("group.share.max.session.timeout.ms", 60_000, 1, "Maximum session timeout of a share group."),
    _row("group.share.heartbeat.interval.ms", 5000, 1, "Interval at which members of a share group send heartbeats."),
    _row("group.share.min.heartbeat.interval.ms", 5000, 1, "Minimum heartbeat interval of a share group."),
    _row("group.share.max.heartbeat.interval.ms", 15_000, 1, "Maximum heartbeat interval of a share group."),
    _row(
        "group.share.assignment.interval.ms",
        1000,
        0,
        "Minimum interval between two assignments of a share group. Members that join meanwhile are assigned together.",
    ),
    _row("group.share.min.assignment.interval.ms", 0, 0, "Minimum assignment interval of a share group."),
    _row("group.share.max.assignment.interval.ms", 15_000, 0, "Maximum assignment interval of a share group."),
    Setting(
        "group.share.max.size",
        SettingType.INT,
        200,
        between(1, 1000),
        Scope.BROKER,
        "Maximum number of members of a share group.",
    ),
    Setting(
        "group.share.assignors",
        SettingType.LIST,
        ["simple"],
        Validator("simple", lambda value: list(value) == ["simple"]),
        Scope.BROKER,
        "Assignors of share groups; there is one.",
    ),
)
