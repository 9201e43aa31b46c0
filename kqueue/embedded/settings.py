"""The settings that the arguments of an embedded broker mean."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kqueue.app import Server
from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.config.listeners import parse_listeners
from kqueue.config.properties import SourcedValue, keyword_name
from kqueue.embedded.argument_checks import check_kind, check_mapping

DEFAULTS: Mapping[str, object] = {
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    # after `advance()` every client would exceed the idle timeout, and not all clients handle it
    # well that all their connections close at once
    "connections.max.idle.ms": -1,
}
"""The settings in which an embedded broker differs from a served one: it has few clients, and
starts faster with fewer partitions.
"""


def setting_values(
    path: str | os.PathLike[str] | None,
    port: int,
    settings: Mapping[str, object],
    keywords: Mapping[str, object],
    defaults: Mapping[str, object] = DEFAULTS,
    protocol: str = "PLAINTEXT",
) -> dict[str, SourcedValue]:
    """Return the settings that these arguments ask for, over `defaults`.

    Args: protocol: of the default listener.

    Raises: SettingError: two arguments set the same thing.
    """
    check_mapping("settings", settings, 'a dict of settings by name, such as {"log.segment.bytes": 1_048_576}')
    given = {name: SourcedValue(value, "settings") for name, value in settings.items()}
    for keyword, value in keywords.items():
        name = keyword_name(keyword)
        if name in given:
            raise SettingError(f"{name} is given twice: in settings and as the keyword {keyword}")
        given[name] = SourcedValue(value, f"keyword {keyword}")
    own = {name: SourcedValue(value, "defaults") for name, value in defaults.items()}
    own.update(_data_folder(path, given))
    own.update(_listener(port, given, protocol))
    return own | given


def with_bound_ports(config: Config, server: Server) -> Config:
    """Return `config` with the real ports of `server` in place of port 0."""
    listeners = [plan.bind for plan in parse_listeners(config)]
    bound = [str(address._replace(port=server.bound(address.name)[1])) for address in listeners]
    return with_values(config, {"listeners": bound})


def with_values(config: Config, values: Mapping[str, object]) -> Config:
    """Return `config` with these settings in place of its own."""
    return Config(config.catalog, {**{name: config[name] for name in config if config.is_set(name)}, **values})


def _data_folder(path: str | os.PathLike[str] | None, given: Mapping[str, SourcedValue]) -> dict[str, SourcedValue]:
    named = [name for name in ("log.dirs", "log.dir") if name in given]
    if path is None:
        return {} if named else {"kqueue.storage": SourcedValue("memory", "defaults")}
    if named:
        raise SettingError(f"the data folder is given twice: as path and as {named[0]}")
    return {"log.dirs": SourcedValue([os.fspath(path)], "path")}


def _listener(port: int, given: Mapping[str, SourcedValue], protocol: str) -> dict[str, SourcedValue]:
    check_kind("port", port, int, "a number from 0 to 65535")
    if not 0 <= port <= 65535:
        raise SettingError(f"port={port}: expected a number from 0 to 65535")
    if "listeners" not in given:
        return {
            "listeners": SourcedValue([f"{protocol}://localhost:{port}"], "port"),
            # an address, which clients need not look up
            "advertised.listeners": SourcedValue([f"{protocol}://127.0.0.1:0"], "port"),
        }
    if port:
        raise SettingError("the port is given twice: as port and in listeners")
    return {}
