"""Settings of access control."""

from __future__ import annotations

from kqueue.base.errors import InvalidRequest
from kqueue.base.settings import ANY, Scope, Setting, SettingType, Validator, at_least
from kqueue.security.authorizers import SETTING, is_authorizer
from kqueue.security.principals import Principal, parse_principal

SUPER_USERS = "super.users"
ALLOW_WITHOUT_ACLS = "allow.everyone.if.no.acl.found"


def parse_super_users(value: str) -> frozenset[Principal]:
    """Return the principals of ``User:ann;User:CN=bob,O=x``. Raises: InvalidRequest."""
    return frozenset(parse_principal(item.strip()) for item in value.split(";") if item.strip())


def _are_principals(value: str) -> bool:
    try:
        parse_super_users(value)
    except InvalidRequest:
        return False
    return True


def _quota_row(name: str, default: int, doc: str) -> Setting:
    return Setting(name, SettingType.INT, default, at_least(1), Scope.BROKER, doc)


QUOTA_SETTINGS: tuple[Setting, ...] = (
    _quota_row(
        "quota.window.num",
        11,
        "Over how many windows the rates of clients with a quota are measured. A client that was quiet may use "
        "at once what it saved in all of them but one.",
    ),
    _quota_row("quota.window.size.seconds", 1, "Length of one of the windows of quota.window.num."),
    _quota_row(
        "controller.quota.window.num",
        11,
        "Windows of controller_mutation_rate: a client saves the changes of partitions of so many.",
    ),
    _quota_row(
        "controller.quota.window.size.seconds", 1, "Length of one of the windows of controller.quota.window.num."
    ),
)

SETTINGS: tuple[Setting, ...] = (
    Setting(
        SETTING,
        SettingType.STRING,
        "",
        Validator("org.apache.kafka.metadata.authorizer.StandardAuthorizer, a name, or module:object", is_authorizer),
        Scope.BROKER,
        "What decides who may do what. Kafka's StandardAuthorizer, or `standard`: ACLs, which clients create by "
        "`kqueue acls` and are kept in the metadata store. Or the name of a plugin, or module:object. Empty: "
        "every client may do everything.",
    ),
    Setting(
        SUPER_USERS,
        SettingType.STRING,
        "",
        Validator("Type:name, separated by semicolons, e.g. User:ann;User:bob", _are_principals),
        Scope.BROKER,
        "Principals that may do everything whatever the ACLs say, separated by semicolons.",
    ),
    Setting(
        ALLOW_WITHOUT_ACLS,
        SettingType.BOOLEAN,
        False,
        ANY,
        Scope.BROKER,
        "Whether everybody may use a resource to which no ACL applies. False: only super users may.",
    ),
    *QUOTA_SETTINGS,
)
