"""Settings of access control."""

from __future__ import annotations

from kqueue.base.errors import InvalidRequest
from kqueue.base.settings import ANY, Scope, Setting, SettingType, Validator
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
)
