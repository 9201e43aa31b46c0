"""Security of the brokers that the scenarios run against, and how clients connect to them.

With ``--secure`` brokers serve SASL_SSL only, to each other too, and decide by ACLs. Clients
authenticate by SCRAM as a user who may do what its ACLs say; the requests of the tests themselves
are those of a super user. Processes that a test starts connect as it does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from compat_tests.waits import eventually_equal
from kqueue.client import Client
from kqueue.config.client_security import ClientSecurity
from kqueue.embedded.client_configs import ClientAccess, client_config
from kqueue.embedded.development_certificates import AUTHORITY, DevelopmentCertificates
from kqueue.security.acl_text import parse_acls
from kqueue.security.jaas import SCRAM_MODULE, format_jaas
from kqueue.security.protocols import SecurityProtocol

FOLDER = "KQUEUE_COMPAT_CERTIFICATES"
"""The environment variable with the folder of the certificates; not set: nothing is secured."""
USER, ADMIN, PASSWORD = "ann", "admin", "secret of"
CLIENT_MECHANISM, BROKER_MECHANISM = "SCRAM-SHA-256", "SCRAM-SHA-512"
ACLS = ("User:ann allow all topic:*", "User:ann allow all group:*", "User:ann allow all transactional_id:*",
        "User:ann allow create,describe,alter,describe_configs,alter_configs,idempotent_write cluster")  # fmt: skip


@cache
def secure() -> DevelopmentCertificates:
    """Secure all brokers and clients of this process, and of processes that it starts."""
    certificates = DevelopmentCertificates()
    certificates.broker_file()
    os.environ[FOLDER] = str(certificates.folder)
    return certificates


def is_secured() -> bool:
    """Whether `secure` was called, here or by the process that started this one."""
    return FOLDER in os.environ


def protocol() -> SecurityProtocol:
    """The protocol of the brokers' listener."""
    return SecurityProtocol.SASL_SSL if is_secured() else SecurityProtocol.PLAINTEXT


def broker_settings() -> dict[str, object]:
    """The settings of a broker, but its listeners."""
    if not is_secured():
        return {}
    options = {"username": ADMIN, "password": f"{PASSWORD} {ADMIN}"}
    options |= {f"user_{name}": f"{PASSWORD} {name}" for name in (USER, ADMIN)}
    return {
        **secure().settings,
        "sasl.enabled.mechanisms": f"{CLIENT_MECHANISM},{BROKER_MECHANISM}",
        "sasl.mechanism.inter.broker.protocol": BROKER_MECHANISM,
        "sasl.jaas.config": format_jaas(SCRAM_MODULE, options),
        "authorizer.class.name": "standard",
        "super.users": f"User:{ADMIN}",
    }


class _Trusted:
    """What a client needs of the certificates."""

    authority_file = property(lambda _: str(Path(os.environ[FOLDER]) / AUTHORITY))


def connecting(client: str, bootstrap: str) -> dict[str, Any]:
    """The arguments by which a client of a library connects, see `client_config`."""
    if not is_secured():
        return {"bootstrap.servers" if client == "confluent-kafka" else "bootstrap_servers": bootstrap}
    trusted: Any = _Trusted()
    return client_config(
        client, ClientAccess(bootstrap, protocol(), trusted, USER, f"{PASSWORD} {USER}", CLIENT_MECHANISM)
    )


def own_security() -> ClientSecurity:
    """How the tests' own requests are sent."""
    properties: Mapping[str, str] = {}
    if is_secured():
        properties = {
            "security.protocol": protocol().name,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": _Trusted().authority_file,
            "sasl.mechanism": CLIENT_MECHANISM,
            "sasl.username": ADMIN,
            "sasl.password": f"{PASSWORD} {ADMIN}",
        }
    return ClientSecurity.of(properties)


def grant(addresses: Sequence[str]) -> None:
    """Let clients do what scenarios need; return once each of the brokers knows it."""
    if not is_secured():
        return
    expected = set(parse_acls(ACLS))
    with Client(",".join(addresses), security=own_security()) as client:
        client.cluster.create_acls(sorted(expected))
    for address in addresses:
        with Client(address, security=own_security()) as client:
            eventually_equal(lambda client=client: {*client.cluster.describe_acls()}, expected, "ACLs")  # type: ignore[misc]
