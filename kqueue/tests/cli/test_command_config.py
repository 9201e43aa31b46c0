"""``--command-config``: commands over TLS and SASL."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kqueue
from kqueue.cli.app import kqueue as root
from kqueue.cli.connect import client_security
from kqueue.config.client_security import ClientSecurity
from kqueue.embedded.development_certificates import DevelopmentCertificates
from kqueue.security.certificates import Authority, write_private
from kqueue.security.jaas import PLAIN_MODULE, SCRAM_MODULE

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def certificates() -> DevelopmentCertificates:
    return DevelopmentCertificates()


@pytest.fixture(scope="module")
def broker(certificates: DevelopmentCertificates) -> Iterator[kqueue.Broker]:
    users = 'user_ann="secret";'
    settings = {
        **certificates.settings,
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users}",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required {users}",
    }
    with kqueue.Broker(settings=settings) as broker:
        yield broker


@pytest.fixture
def properties(certificates: DevelopmentCertificates, tmp_path: Path) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.authority_file,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM_MODULE} required username="ann" password="secret";',
    }


@pytest.fixture
def run(broker: kqueue.Broker, tmp_path: Path) -> Run:
    def run(properties: dict[str, str], *args: str, input: str | None = None, **env: str) -> Result:
        path = tmp_path / "client.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        bootstrap = {"KQUEUE_BOOTSTRAP": broker.bootstrap, **env}
        return CliRunner().invoke(root, [*args, "--command-config", str(path)], input=input, env=bootstrap)

    return run


def test_commands_of_both_clients_connect(run: Run, properties: dict[str, str]) -> None:
    created = run(properties, "topics", "create", "orders")
    assert created.exit_code == 0, created.output
    assert "orders" in run(properties, "topics", "list").output
    info = run(properties, "cluster", "info", "--json")
    assert info.exit_code == 0, info.output
    assert json.loads(info.output)
    produced = run(properties, "produce", "orders", input="one\ntwo\n")
    assert produced.exit_code == 0, produced.output
    consumed = run(properties, "consume", "orders", "--from-beginning", "-n", "2", "--timeout-ms", "20000")
    assert consumed.stdout.split() == ["one", "two"]
    assert run(properties, "groups", "list").exit_code == 0


def test_threads_of_a_command_connect_as_it_does(run: Run, properties: dict[str, str], broker: kqueue.Broker) -> None:
    securities: list[ClientSecurity | None] = []
    assert run(properties, "topics", "list").exit_code == 0
    for _ in range(2):
        thread = threading.Thread(target=lambda: securities.append(client_security()))
        thread.start()
        thread.join()
        CliRunner().invoke(root, ["topics", "list", "--bootstrap-server", "127.0.0.1:1"])
    assert [security is not None and security.protocol.name for security in securities] == ["SASL_SSL", False]


def test_variables_come_before_the_file(run: Run, properties: dict[str, str], broker: kqueue.Broker) -> None:
    plain = {"KQUEUE_CLIENT_SASL_MECHANISM": "PLAIN", "KQUEUE_CLIENT_SASL_USERNAME": "ann"}
    without = {name: value for name, value in properties.items() if not name.startswith("sasl.")}
    ran = run(without, "topics", "list", **plain, KQUEUE_CLIENT_SASL_PASSWORD="secret")
    assert ran.exit_code == 0, ran.output
    wrong = run(without, "topics", "list", **plain, KQUEUE_CLIENT_SASL_PASSWORD="guessed")
    assert wrong.exit_code == 1
    assert "user ann is not authenticated" in wrong.output
    assert "check sasl.mechanism" in wrong.output
    assert "guessed" not in wrong.output


@pytest.mark.parametrize("command", [("topics", "list"), ("cluster", "describe"), ("consume", "orders")])
def test_errors_name_the_remedy(run: Run, properties: dict[str, str], command: tuple[str, ...], tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    write_private(other, Authority.create("CN=other CA").certificate)
    for changed, message in (
        ({"ssl.truststore.location": str(other)}, f"trusted are those of ssl.truststore.location={other}"),
        ({"ssl.truststore.type": "JKS"}, "is PEM text: set ssl.truststore.type=PEM"),
        (
            {"sasl.jaas.config": f'{SCRAM_MODULE} required username="ann" password="guessed";'},
            "user ann is not authenticated: Authentication failed: invalid credentials",
        ),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, "does not offer the mechanism SCRAM-SHA-256, only PLAIN, SCRAM-SHA-512"),
    ):
        ran = run({**properties, **changed}, *command)
        assert ran.exit_code == 1, ran.output
        assert message in ran.output.replace("\n", " "), ran.output
        assert "guessed" not in ran.output


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS: expected one of PLAINTEXT, SSL"),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI: expected one of PLAIN"),
        ({"sasl.mecanism": "PLAIN"}, "did you mean 'sasl.mechanism'"),
    ],
)
def test_wrong_properties_are_named(
    run: Run, properties: dict[str, str], changed: dict[str, str], message: str
) -> None:
    ran = run({**properties, **changed}, "topics", "list")
    assert ran.exit_code == 2
    assert message in ran.output
