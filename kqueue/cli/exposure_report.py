"""The output of `kqueue serve --check`: to whom a broker with these settings would be open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import click

from kqueue.base.errors import CorruptData
from kqueue.base.text import counted
from kqueue.cli.output import columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kqueue.base.config import Config
    from kqueue.config.listeners import ListenerConfig
    from kqueue.security.acls import AclBinding
    from kqueue.security.sasl.tokens import SigningKeys

HEAD = ("LISTENER", "PROTOCOL", "MECHANISMS", "CLIENT AUTH", "REACHED FROM", "AUTHENTICATES")
OPEN_STATUS = 1
"""Exit status where other machines reach something that is not secured."""
ANONYMOUS_PRINCIPALS = frozenset({"User:ANONYMOUS", "User:*"})


class StoredAccess(NamedTuple):
    """The ACLs and users of the metadata store. `unreadable`: entries that can't be read."""

    acls: Sequence[AclBinding]
    users: int
    unreadable: int


def report_exposure(config: Config) -> int:
    """Print who can reach a broker with these settings and what they may do. Nothing is bound or
    changed.

    Returns: 0: other machines reach nothing without authenticating; else `OPEN_STATUS`.
    Raises: SettingError: the broker would not start.
    """
    from kqueue.config.exposure import authenticates, check_exposure, secrets_in_clear
    from kqueue.config.listeners import parse_listeners
    from kqueue.security.authorizers import SETTING as AUTHORIZER_SETTING
    from kqueue.security.config import SUPER_USERS

    listeners = parse_listeners(config)
    check_exposure(config, listeners)
    _check_security_of(listeners, config)
    click.echo(columns(HEAD, [_row(listener, config) for listener in listeners]))
    click.echo()
    authorizer: str = config[AUTHORIZER_SETTING]
    access = stored_access(config)
    click.echo(f"authorizer   {authorizer or 'none: every client may do everything'}")
    click.echo(f"super users  {config[SUPER_USERS] or 'none'}")
    if access is None:
        click.echo("metadata     not read: the store is made when the broker starts, or is not a file")
    else:
        unreadable = f", {access.unreadable} unreadable" if access.unreadable else ""
        click.echo(f"ACLs         {len(access.acls)}{unreadable}")
        click.echo(f"SCRAM users  {access.users}")
    lets_in = [listener.bind.name for listener in listeners if not authenticates(config, listener)]
    click.echo(f"anonymous    {_anonymous(config, lets_in, access)}")
    beyond = [listener for listener in listeners if not listener.bind.is_loopback]
    is_open = any(not authenticates(config, listener) or secrets_in_clear(config, listener) for listener in beyond)
    return OPEN_STATUS if is_open or (beyond and not authorizer) else 0


def stored_access(config: Config) -> StoredAccess | None:
    """Return what the metadata store has, which a running broker may use meanwhile; None: there is
    no file of a store.

    Raises: StorageFailed.
    """
    from kqueue.broker.access.acls import PREFIX as ACLS
    from kqueue.broker.access.scram_users import PREFIX as USERS
    from kqueue.metadata.sqlite import SqliteStore
    from kqueue.security.acls import binding_of_json

    path = _store_path(config)
    if path is None or not path.exists():
        return None
    store = SqliteStore(path)
    try:
        entries = store.read(ACLS)
        users = len(store.read(USERS))
    finally:
        store.close()
    acls: list[AclBinding] = []
    for entry in entries.values():
        try:
            acls.append(binding_of_json(entry.value))
        except CorruptData:
            continue
    return StoredAccess(acls, users, len(entries) - len(acls))


def _check_security_of(listeners: Sequence[ListenerConfig], config: Config) -> None:
    """Read key stores and users, as a start does. Keys of identity providers are not fetched.

    Raises: SettingError.
    """
    from kqueue.base.clock import SystemClock
    from kqueue.network.tls_context import ListenerTls
    from kqueue.security.made_up_credentials import MadeUpCredentials
    from kqueue.security.sasl.mechanisms import MechanismSources, SaslListenerConfig, offered_mechanisms

    sources = MechanismSources(
        lambda mechanism, name, is_token: None,
        MadeUpCredentials(),
        lambda keys: cast("SigningKeys", None),
        SystemClock(),
    )
    for listener in listeners:
        if listener.protocol.uses_tls:
            ListenerTls(listener, config, SystemClock())
        if listener.protocol.uses_sasl:
            settings = SaslListenerConfig(config, listener.bind.name)
            offered_mechanisms(settings, sources)


def _row(listener: ListenerConfig, config: Config) -> Sequence[str]:
    from kqueue.config.exposure import authenticates, client_auth
    from kqueue.security.sasl.config import ENABLED_MECHANISMS

    protocol = listener.protocol
    mechanisms = ",".join(config.of_listener(listener.bind.name, ENABLED_MECHANISMS)) if protocol.uses_sasl else "-"
    return (
        str(listener.bind),
        protocol.name,
        mechanisms,
        client_auth(config, listener) if protocol.uses_tls else "-",
        "this machine" if listener.bind.is_loopback else "other machines",
        "everybody" if authenticates(config, listener) else "nobody has to",
    )


def _anonymous(config: Config, listeners: Sequence[str], access: StoredAccess | None) -> str:
    """Return what a client that has not authenticated may do."""
    from kqueue.config.exposure import is_standard_authorizer
    from kqueue.security.authorizers import SETTING as AUTHORIZER_SETTING
    from kqueue.security.config import ALLOW_WITHOUT_ACLS, SUPER_USERS, parse_super_users
    from kqueue.security.principals import ANONYMOUS

    if not listeners:
        return "nothing: all listeners authenticate"
    where = f"on {', '.join(listeners)}"
    if not config[AUTHORIZER_SETTING]:
        return f"everything, {where}"
    if not is_standard_authorizer(config):
        return f"what the authorizer decides, {where}"
    if ANONYMOUS in parse_super_users(config[SUPER_USERS]):
        return f"everything, {where}: {ANONYMOUS} is a super user"
    allowed = [] if access is None else [acl for acl in access.acls if acl.principal in ANONYMOUS_PRINCIPALS]
    lines = [f"{counted(len(allowed), 'ACL')} for it {where}", *(f"  {acl}" for acl in sorted(map(str, allowed)))]
    if config[ALLOW_WITHOUT_ACLS]:
        lines.insert(1, f"  everything to which no ACL applies ({ALLOW_WITHOUT_ACLS}=true)")
    return "\n".join(lines)


def _store_path(config: Config) -> Path | None:
    from kqueue.config.data_folders import data_folders, metadata_folder
    from kqueue.config.plugins import metadata_store_name
    from kqueue.metadata.sqlite import FILE_NAME
    from kqueue.replication.config import CLUSTER_STORE, SQLITE_STORE

    text: str | None = config[CLUSTER_STORE]
    if text is not None:
        return Path(text.removeprefix(SQLITE_STORE)) if text.startswith(SQLITE_STORE) else None
    if config["kqueue.storage"] == "memory" or metadata_store_name(config) != "sqlite":
        return None
    return Path(metadata_folder(data_folders(config), ()), FILE_NAME)
