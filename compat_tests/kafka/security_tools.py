"""What an administrator does with Kafka's tools for ACLs, users, quotas and delegation tokens, each
with `--command-config`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from compat_tests.kafka.secured import ADMIN, PASSWORD, Secured
from compat_tests.kafka.tool_host import ToolHost, ToolResult
from compat_tests.waits import look_until
from kqueue.security.jaas import SCRAM_MODULE, format_jaas

ACLS = "org.apache.kafka.tools.AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
_OWN = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d\S*", "DATE"),
    (r"[A-Za-z0-9+/]{86}==", "HMAC"),
    (r"\b[A-Za-z0-9_-]{22}(?![A-Za-z0-9_-])", "ID"),
    (r"[ \t]+", " "),
)
"""What differs from broker to broker."""


class Tools:
    """Runs tools on a broker. `said`: what they did, comparable with that of another broker."""

    def __init__(self, host: ToolHost, broker: Secured, folder: Path) -> None:
        self._host = host
        self._broker = broker
        self._config = folder / f"{broker.name}.properties"
        self.said: list[tuple[str, int, list[str]]] = []

    def run(self, tool: str, *arguments: str, until: str = "", without: str = "", status: int = 0) -> ToolResult:
        """Run a tool as the administrator. `until`, `without`: what the output must have and must
        not: Kafka answers before a change takes effect.
        """
        user = self._broker.user("SASL_SSL", "SCRAM-SHA-512", ADMIN)
        return self._run(
            user, tool, arguments, lambda text: until in text and not (without and without in text), status
        )

    def run_as(self, user: str, tool: str, *arguments: str, password: str = PASSWORD, status: int = 1) -> ToolResult:
        """Run a tool as another user."""
        settings = self._broker.user("SASL_SSL", "PLAIN", user, password)
        return self._run(settings, tool, arguments, lambda text: True, status)

    def run_by_token(self, token_id: str, hmac: str, tool: str, *arguments: str, status: int = 0) -> ToolResult:
        """Run a tool with a delegation token; until the broker knows it, or no longer."""
        login = format_jaas(SCRAM_MODULE, {"username": token_id, "password": hmac, "tokenauth": "true"})
        settings = self._broker.user("SASL_SSL", "SCRAM-SHA-256", token_id) | {"sasl.jaas.config": login}
        return self._run(settings, tool, arguments, lambda text: True, status)

    def _run(
        self,
        settings: dict[str, object],
        tool: str,
        arguments: tuple[str, ...],
        is_expected: Callable[[str], bool],
        status: int,
    ) -> ToolResult:
        more = {"request.timeout.ms": 5000, "default.api.timeout.ms": 10_000}
        self._config.write_text("".join(f"{name}={value}\n" for name, value in {**settings, **more}.items()))
        where = ("--bootstrap-server", self._broker.bootstrap("SASL_SSL"), "--command-config", str(self._config))
        done = look_until(
            lambda: self._host.run(tool, *where, *arguments),
            lambda done: done.status == status and is_expected(done.stdout),
            f"{tool} {arguments} with status {status}",
        )
        self.said.append((" ".join((tool, *arguments[:1])), done.status, comparable(done)))
        return done


def comparable(done: ToolResult) -> list[str]:
    """The lines of the output and their words in any order, without what is the broker's own; of a
    failure the error.
    """
    text = done.stdout
    for pattern, name in _OWN:
        text = re.sub(pattern, name, text)
    if done.status:
        return re.findall(r"org\.apache\.kafka\S*(?:Exception|Error)(?!\w)", done.stdout + done.stderr)[:1]
    return sorted(" ".join(sorted(re.split("[ ,]+", line.strip()))) for line in text.splitlines() if line.strip())


def acls(tools: Tools) -> None:
    add = "--add", "--allow-principal"
    writing = "--producer", "--topic", "orders", "--idempotent", "--transactional-id", "orders-"
    tools.run(ACLS, *add, "User:bob", *writing)
    tools.run(ACLS, *add, "User:carl", "--consumer", "--topic", "orders", "--group", "billing")
    prefix = "--topic", "ord", "--resource-pattern-type", "prefixed"
    tools.run(ACLS, "--add", "--deny-principal", "User:eve", "--deny-host", "10.0.0.7", "--operation", "Read", *prefix)
    tools.run(ACLS, *add, "User:bob", "--operation", "CreateTokens", "--user-principal", "User:carl")
    listing = tools.run(
        ACLS, "--list", "--topic", "orders", "--resource-pattern-type", "match", until="name=ord,"
    ).stdout
    assert "(principal=User:bob, host=*, operation=WRITE, permissionType=ALLOW)" in listing
    assert "(principal=User:eve, host=10.0.0.7, operation=READ, permissionType=DENY)" in listing
    tools.run(ACLS, "--list", "--principal", "User:carl", until="billing")
    tools.run(ACLS, "--list", "--user-principal", "User:carl", until="CREATE_TOKENS")
    tools.run(ACLS, *add, "User:bob", "--operation", "Fly", "--topic", "orders", status=1)
    tools.run_as("eve", ACLS, "--list")
    tools.run_as("eve", ACLS, *add, "User:eve", "--operation", "All", "--topic", "orders")
    match = "--resource-pattern-type", "match", "--force"
    tools.run(ACLS, "--remove", "--topic", "orders", *match)
    for resource in (("--group", "billing"), ("--transactional-id", "orders-"), ("--user-principal", "User:carl")):
        tools.run(ACLS, "--remove", *resource, "--force")
    tools.run(
        ACLS, "--remove", "--allow-principal", "User:bob", "--operation", "IdempotentWrite", "--cluster", "--force"
    )
    tools.run(ACLS, "--list", "--principal", "User:bob", without="principal=User:bob")
    tools.run(ACLS, "--list", "--topic", "orders", *match[:2], without="name=ord")


def users(tools: Tools) -> None:
    user = "--entity-type", "users", "--entity-name", "tool-user"
    change, describe = ("--alter", *user), ("--describe", *user)
    tools.run(CONFIGS, *change, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=one]")
    tools.run(CONFIGS, *describe, until="SCRAM-SHA-256=iterations=8192")
    tools.run(CONFIGS, *change, "--add-config", "SCRAM-SHA-512=[password=two]")
    tools.run(CONFIGS, *describe, until="SCRAM-SHA-512=iterations=4096")
    for refused, words in (
        ("SCRAM-SHA-256=[iterations=4095,password=x]", "less than the minimum 4096"),
        ("SCRAM-SHA-256=[iterations=99999,password=x]", "Too many iterations"),
        ("SCRAM-SHA-256=[password=x],SCRAM-SHA-512=[password=x]", "cannot be altered twice"),
    ):
        done = tools.run(CONFIGS, *change, "--add-config", refused, status=1)
        assert words in done.stdout + done.stderr
    tools.run_as("eve", CONFIGS, *change, "--add-config", "SCRAM-SHA-256=[password=mine]")
    tools.run_as("eve", CONFIGS, *describe)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        tools.run(CONFIGS, *change, "--delete-config", mechanism)
        tools.run(CONFIGS, *describe, without=mechanism)


def quotas(tools: Tools) -> None:
    ann, app = (
        ("--entity-type", "users", "--entity-name", "q-ann"),
        ("--entity-type", "clients", "--entity-name", "q-app"),
    )
    others, address = (
        ("--entity-type", "clients", "--entity-default"),
        ("--entity-type", "ips", "--entity-name", "192.0.2.7"),
    )
    for entity, quota, described in (
        (ann, "producer_byte_rate=1024", "for user-principal 'q-ann' are producer_byte_rate=1024.0"),
        (app, "consumer_byte_rate=2048", "for client-id 'q-app' are consumer_byte_rate=2048.0"),
        ((*ann, *app), "controller_mutation_rate=0.5",
         "for user-principal 'q-ann', client-id 'q-app' are controller_mutation_rate=0.5"),
        ((*ann, *others), "request_percentage=50", "the default client-id are request_percentage=50.0"),
        (address, "connection_creation_rate=50", "for ip '192.0.2.7' are connection_creation_rate=50.0"),
    ):  # fmt: skip
        tools.run(CONFIGS, "--alter", *entity, "--add-config", quota)
        tools.run(CONFIGS, "--describe", *entity, until=described)
        tools.run(CONFIGS, "--alter", *entity, "--delete-config", quota.partition("=")[0])
        tools.run(CONFIGS, "--describe", *entity, without="rate=")
    for refused, words in (
        ("producer_byte_rate=0", "must be greater than 0"),
        ("producer_byte_rate=1.5", "cannot be a fractional value"),
    ):
        done = tools.run(CONFIGS, "--alter", *ann, "--add-config", refused, status=1)
        assert words in done.stdout + done.stderr
    tools.run_as("eve", CONFIGS, "--alter", *ann, "--add-config", "producer_byte_rate=1024")


def delegation_tokens(tools: Tools) -> None:
    created = tools.run(TOKENS, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:ann")
    token_id, hmac = next(line.split()[:2] for line in created.stdout.splitlines() if f"User:{ADMIN}" in line)
    described = "--describe", "--owner-principal", f"User:{ADMIN}"
    tools.run(TOKENS, *described, until=token_id)
    tools.run_by_token(token_id, hmac, TOPICS, "--list", "--exclude-internal")
    tools.run_by_token(token_id, hmac, TOKENS, "--create", "--max-life-time-period", "-1", status=1)
    tools.run_as("ann", TOKENS, "--renew", "--hmac", hmac, "--renew-time-period", "-1", status=0)
    tools.run_as("eve", TOKENS, "--renew", "--hmac", hmac, "--renew-time-period", "-1")
    tools.run_as("eve", TOKENS, "--expire", "--hmac", hmac, "--expiry-time-period", "-1")
    tools.run_as("eve", TOKENS, *described, status=0)
    of_another = "--create", "--max-life-time-period", "-1", "--owner-principal", "User:ann"
    tools.run_as("eve", TOKENS, *of_another)
    tools.run(TOKENS, "--expire", "--hmac", hmac, "--expiry-time-period", "-1")
    tools.run(TOKENS, *described, without=token_id)
    tools.run_by_token(token_id, hmac, TOPICS, "--list", "--exclude-internal", status=1)


def wrong_passwords(tools: Tools) -> None:
    for tool, argument in ((ACLS, "--list"), (TOPICS, "--list"), (TOKENS, "--describe")):
        tools.run_as(ADMIN, tool, argument, password="a guess")


TOOL_SCENARIOS = (acls, users, quotas, delegation_tokens, wrong_passwords)
