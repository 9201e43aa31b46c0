from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography import x509
from kafka import KafkaProducer

import kqueue
from kqueue.cli.app import kqueue as main


def run(folder: Path, *args: str) -> Result:
    return CliRunner().invoke(main, ["certs", *args, "--folder", str(folder)])


def settings_in(output: str) -> dict[str, str]:
    return dict(line.strip().split("=", 1) for line in output.splitlines() if re.match(r"  \S+=", line))


def test_broker_and_client_with_the_settings_that_are_printed(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    made = run(folder, "ca")
    assert made.exit_code == 0, made.output
    broker = settings_in(run(folder, "broker").output) | {"listeners": "SSL://127.0.0.1:0"}
    client = settings_in(run(folder, "client", "CN=Ann,O=x").output)
    assert {path.name for path in folder.iterdir()} == {"ca.key", "ca.pem", "broker.pem", "Ann.pem"}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    with kqueue.Broker(settings=broker) as running:
        producer = KafkaProducer(
            bootstrap_servers=running.bootstrap,
            security_protocol=client["security.protocol"],
            ssl_cafile=client["ssl.truststore.location"],
            ssl_certfile=client["ssl.keystore.location"],
            ssl_keyfile=client["ssl.keystore.location"],
        )
        producer.send("t", b"x").get(60)
        producer.close()


def test_certificate_has_the_hosts_that_are_given(tmp_path: Path) -> None:
    run(tmp_path, "ca", "--name", "CN=mine,O=y", "--days", "10")
    made = run(tmp_path, "broker", "one", "--host", "one.example.com", "--host", "10.0.0.7", "--days", "5")
    assert "one.pem: for one.example.com, 10.0.0.7" in made.output
    certificate = x509.load_pem_x509_certificate((tmp_path / "one.pem").read_bytes())
    assert certificate.issuer.rfc4514_string() == "CN=mine,O=y"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert len(names) == 2


def test_authority_is_not_replaced_and_a_broker_s_certificate_is(tmp_path: Path) -> None:
    run(tmp_path, "ca")
    again = run(tmp_path, "ca")
    assert again.exit_code == 1
    assert "ca.pem is there already: delete it, or use another --folder" in again.output
    run(tmp_path, "broker")
    first = (tmp_path / "broker.pem").read_text()
    assert run(tmp_path, "broker").exit_code == 0
    assert (tmp_path / "broker.pem").read_text() != first


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("broker",), "First make an authority: kqueue certs ca --folder"),
        (("client", "ann"), "First make an authority"),
        (("ca", "--name", "CN="), "expected a name as CN=ann,O=example"),
        (("ca", "--days", "0"), "not in the range"),
    ],
)
def test_mistakes_are_said_in_one_sentence(args: tuple[str, ...], words: str, tmp_path: Path) -> None:
    result = run(tmp_path / "none", *args)
    assert result.exit_code != 0
    assert words in " ".join(result.output.split())
    assert "Traceback" not in result.output


@pytest.mark.parametrize("name", ["ca", "CN=ca,O=x", "...", "CN=/"])
def test_names_that_make_no_file_of_their_own_are_refused(name: str, tmp_path: Path) -> None:
    run(tmp_path, "ca")
    before = (tmp_path / "ca.pem").read_text()
    result = run(tmp_path, "client", name)
    assert (tmp_path / "ca.pem").read_text() == before
    assert {path.name for path in tmp_path.iterdir()} <= {"ca.key", "ca.pem", "-.pem"}
    assert result.exit_code == (0 if name == "CN=/" else 1)
