"""Settings of delegation tokens."""

from __future__ import annotations

from kqueue.base.settings import ANY, Scope, Setting, SettingType, at_least

SECRET_KEY = "delegation.token.secret.key"
MAX_LIFETIME_MS = "delegation.token.max.lifetime.ms"
EXPIRY_TIME_MS = "delegation.token.expiry.time.ms"
CHECK_INTERVAL_MS = "delegation.token.expiry.check.interval.ms"
HOUR_MS = 3_600_000

SETTINGS: tuple[Setting, ...] = (
    Setting(
        SECRET_KEY,
        SettingType.PASSWORD,
        None,
        ANY,
        Scope.BROKER,
        "Key of the delegation tokens, the same on all brokers: long and random. With another key all tokens of "
        "before are invalid. Unset: there are no delegation tokens.",
    ),
    Setting(
        MAX_LIFETIME_MS,
        SettingType.LONG,
        7 * 24 * HOUR_MS,
        at_least(1),
        Scope.BROKER,
        "Time after which a delegation token ends, however often it is renewed.",
    ),
    Setting(
        EXPIRY_TIME_MS,
        SettingType.LONG,
        24 * HOUR_MS,
        at_least(1),
        Scope.BROKER,
        "Time after which a delegation token ends that is not renewed.",
    ),
    Setting(
        CHECK_INTERVAL_MS,
        SettingType.LONG,
        HOUR_MS,
        at_least(1),
        Scope.BROKER,
        "Time between removals of delegation tokens that have ended; nobody can use them meanwhile.",
    ),
)
