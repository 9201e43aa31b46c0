"""TLS to ZooKeeper."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import kqueue
from compat_tests.kafka.node import free_ports
from compat_tests.waits import look_until
from compat_tests.zookeeper.server import Server
from kqueue.base.errors import SettingError, StorageFailed
from kqueue.config.data_folders import zookeeper_tls
from kqueue.config.properties import SourcedValue, make_config
from kqueue.embedded.development_certificates import DevelopmentCertificates
from kqueue.metadata.zookeeper import ZookeeperStore
from kqueue.security.certificates import Authority, write_private


class SecureServer(Server):
    """One that takes clients with certificates at its `secure_port`."""

    def __init__(self, folder: Path) -> None:
        self.certificates = DevelopmentCertificates()
        [self.secure_port] = free_ports(1)
        super().__init__(
            folder,
            settings=[
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
                f"secureClientPort={self.secure_port}",
                f"ssl.keyStore.location={self.certificates.broker_file()}",
                f"ssl.trustStore.location={self.certificates.authority_file}",
                "ssl.clientAuth=need",
            ],
        )

    def settings(self, port: int, **other: object) -> dict[str, object]:
        """Of a broker: it shows the certificate of a user."""
        given = {
            "truststore.location": self.certificates.authority_file,
            "keystore.location": self.certificates.user_file("broker"),
            **{name.replace("_", "."): value for name, value in other.items()},
        }
        tls = {f"zookeeper.ssl.{name}": value for name, value in given.items() if value is not None}
        return {
            "kqueue.cluster.store": f"zookeeper:127.0.0.1:{port}/secure",
            "zookeeper.ssl.client.enable": True,
            **tls,
            "offsets.topic.replication.factor": 1,
        }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureServer]:
    with SecureServer(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


def test_brokers_share_metadata_by_tls(server: SecureServer, tmp_path: Path) -> None:
    settings = server.settings(server.secure_port)
    with (
        kqueue.Broker(node_id=1, settings=settings) as one,
        kqueue.Broker(node_id=2, settings=settings) as other,
    ):
        names = [f"topic-{number}" for number in range(30)]
        for number, name in enumerate(names):
            (one, other)[number % 2].create_topic(name, partitions=random.Random(number).randrange(1, 100))
        for broker in (one, other):
            look_until(lambda broker=broker: {*broker.topics}, {*names}.issubset, "all topics")  # type: ignore[misc]


def connect(settings: dict[str, object]) -> None:
    address = str(settings["kqueue.cluster.store"]).removeprefix("zookeeper:")
    config = make_config({name: SourcedValue(value, "test") for name, value in settings.items()})
    ZookeeperStore(address, timeout_s=1.5, tls=zookeeper_tls(config)).close()


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"truststore_location": "other.pem"}, "can't speak TLS with ZooKeeper at .*issuer certificate"),
        ({"keystore_location": None}, "ZooKeeper at"),
    ],
    ids=["authority", "no certificate"],
)
def test_servers_and_brokers_that_do_not_trust_each_other(
    server: SecureServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, object], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_private(tmp_path / "other.pem", Authority.create("CN=other CA").certificate)
    connect(server.settings(server.secure_port))
    with pytest.raises(StorageFailed, match=reason):
        connect(server.settings(server.secure_port, **other))


def test_a_port_without_tls_and_a_missing_file(server: SecureServer) -> None:
    with pytest.raises(StorageFailed, match=r"can't (speak TLS with|reach) ZooKeeper at"):
        connect(server.settings(server.port))
    with pytest.raises(SettingError, match=r"TLS to ZooKeeper, zookeeper\.ssl\.\*: "):
        connect(server.settings(server.port, truststore_location="missing.pem"))
