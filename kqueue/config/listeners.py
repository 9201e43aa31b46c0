"""Listeners of the settings: ``NAME://host:port``, their security protocols, and the addresses that
are advertised to clients.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.broker.metadata.brokers import inter_broker_listener
from kqueue.replication.config import CLUSTER_STORE, INTER_BROKER_LISTENER, INTER_BROKER_PROTOCOL
from kqueue.security.protocols import SecurityProtocol

_LISTENER = re.compile(
    r"(?P<name>[A-Za-z0-9_-]+)://(?:\[(?P<ipv6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\[\]:/]*)):(?P<port>-?[0-9]+)\Z"
)
CONTROLLER_LISTENERS = "controller.listener.names"
CONTROL_PLANE_LISTENER = "control.plane.listener.name"
PROCESS_ROLES = "process.roles"
PROTOCOLS = "listener.security.protocol.map"


class ListenerAddress(NamedTuple):
    """A listener's name, host and port. `host`: a name or an address without brackets; empty: every
    interface.
    """

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    @property
    def is_localhost(self) -> bool:
        """Whether it is ``localhost``: the loopback addresses of IPv4 and IPv6, whatever the name
        service says.
        """
        return self.host.lower() == "localhost"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.is_localhost:
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class ListenerConfig(NamedTuple):
    """One listener to open. `advertised` None: the bound address is advertised."""

    bind: ListenerAddress
    advertised: ListenerAddress | None
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    def endpoint(self, bound_port: int) -> tuple[str, int]:
        """Return the advertised host and port of a listener that is bound to `bound_port`. May look
        up the name of this machine, which blocks.
        """
        address = self.advertised or self.bind
        return address.host or socket.getfqdn(), address.port or bound_port


def parse_listener_address(text: str, setting: str) -> ListenerAddress:
    """Parse ``NAME://host:port``, with the name in upper case. Raises SettingError."""
    match = _LISTENER.match(text.strip())
    if match is None or not 0 <= int(match["port"]) <= 65535:
        raise SettingError(f"{setting}: expected NAME://host:port with a port from 0 to 65535, found {text!r}")
    return ListenerAddress(match["name"].upper(), match["ipv6"] or match["host"] or "", int(match["port"]))


def parse_listeners(config: Config) -> list[ListenerConfig]:
    """Return the listeners for clients, checked against each other. Raises SettingError."""
    controllers = _controller_names(config)
    given = _parse_all(config["listeners"], "listeners")
    binds = [address for address in given if address.name not in controllers]
    if not binds:
        raise SettingError(
            f"listeners has listeners of controllers only ({', '.join(address.name for address in given)}): "
            f"{CONTROLLER_LISTENERS} must leave one for clients"
        )
    advertised = {
        address.name: address
        for address in _parse_all(config["advertised.listeners"] or [], "advertised.listeners")
        if address.name not in controllers
    }
    protocols = _protocols_of(binds, config[PROTOCOLS])
    _check_ports(binds)
    names = {address.name for address in binds}
    for name, address in advertised.items():
        if name not in names:
            raise SettingError(
                f"advertised.listeners names {name}, which is none of the listeners ({', '.join(sorted(names))})"
            )
        if address.host in ("0.0.0.0", "::"):
            raise SettingError(
                f"advertised.listeners: no client can connect to {address.host}; name the address that clients reach"
            )
    for address in binds:
        if address.host in ("0.0.0.0", "::") and address.name not in advertised:
            raise SettingError(
                f"listener {address} takes every interface: advertised.listeners must say which address clients reach, "
                f"e.g. {address.name}://broker.example.com:{address.port}"
            )
    if config[CLUSTER_STORE] is not None:
        _check_inter_broker(names, config)
    if not config.is_set("listeners"):
        # an address, not a name: clients that try ::1 first would log errors where there is no IPv6
        advertised = {address.name: address._replace(host="127.0.0.1", port=0) for address in binds} | advertised
    return [ListenerConfig(address, advertised.get(address.name), protocols[address.name]) for address in binds]


def unopened_listeners(config: Config) -> list[ListenerAddress]:
    """Return the listeners of controllers, which no client reaches in Kafka, and which are not
    opened.
    """
    controllers = _controller_names(config)
    return [address for address in _parse_all(config["listeners"], "listeners") if address.name in controllers]


def _controller_names(config: Config) -> set[str]:
    """Return the names of controllers' listeners in upper case. Raises SettingError: a file of
    Kafka has such listeners and does not name them, so they would be opened to clients.
    """
    roles = config[PROCESS_ROLES]
    names = {name.upper() for name in (*config[CONTROLLER_LISTENERS], config[CONTROL_PLANE_LISTENER] or "") if name}
    if "controller" in roles and "broker" not in roles:
        raise SettingError(f"{PROCESS_ROLES}=controller serves no clients: add broker, or leave {PROCESS_ROLES} out")
    if "controller" in roles and not config[CONTROLLER_LISTENERS]:
        raise SettingError(
            f"{PROCESS_ROLES} has the role controller, and {CONTROLLER_LISTENERS} is not set: name the listeners of "
            "the controller, which are not opened, or leave the role out"
        )
    given = {address.name for address in _parse_all(config["listeners"], "listeners")}
    if "controller" in roles and not names & given:  # else the misspelt name opens the listener to clients
        raise SettingError(
            f"{CONTROLLER_LISTENERS}={','.join(config[CONTROLLER_LISTENERS])} names none of the listeners "
            f"({', '.join(sorted(given))}), and {PROCESS_ROLES} has the role controller: name those of the controller"
        )
    return names


def inter_broker_plan(plans: Sequence[ListenerConfig], config: Config) -> ListenerConfig:
    """Return the listener at which brokers reach each other."""
    name = inter_broker_listener(config)
    return next((plan for plan in plans if plan.bind.name == name), plans[0])


def _check_inter_broker(names: set[str], config: Config) -> None:
    for setting in (INTER_BROKER_LISTENER, INTER_BROKER_PROTOCOL):
        if config.is_set(setting) and str(config[setting]).upper() not in names:
            raise SettingError(f"{setting}={config[setting]} is none of the listeners ({', '.join(sorted(names))})")
    if config.is_set(INTER_BROKER_LISTENER) and config.is_set(INTER_BROKER_PROTOCOL):
        raise SettingError(f"{INTER_BROKER_LISTENER} and {INTER_BROKER_PROTOCOL} are both set: expected one of them")


def _parse_all(texts: Iterable[str], setting: str) -> list[ListenerAddress]:
    addresses = [parse_listener_address(text, setting) for text in texts]
    names = [address.name for address in addresses]
    for name in names:
        if names.count(name) > 1:
            raise SettingError(f"{setting} names {name} twice; give each listener a name of its own")
    return addresses


def _protocols_of(binds: list[ListenerAddress], entries: list[str]) -> dict[str, SecurityProtocol]:
    """Return the security protocol of each listener, by name."""
    protocols: dict[str, SecurityProtocol] = {}
    for entry in entries:
        name, colon, protocol = (part.strip().upper() for part in entry.partition(":"))
        if not colon or protocol not in SecurityProtocol.__members__:
            expected = f"expected NAME:PROTOCOL with one of {', '.join(SecurityProtocol.__members__)}"
            raise SettingError(f"{PROTOCOLS}: {expected}, found {entry!r}")
        protocols[name] = SecurityProtocol[protocol]
    for address in binds:
        mapped = protocols.get(address.name)
        if mapped is None:
            raise SettingError(f"listener {address.name} has no entry in {PROTOCOLS}, e.g. {address.name}:PLAINTEXT")
    return protocols


def _check_ports(binds: list[ListenerAddress]) -> None:
    by_address: dict[tuple[str, int], ListenerAddress] = {}
    for address in binds:
        other = by_address.setdefault((address.host, address.port), address) if address.port else address
        if other is not address:
            raise SettingError(
                f"listeners {other.name} and {address.name} ask for the same address {address.host}:{address.port}"
            )
