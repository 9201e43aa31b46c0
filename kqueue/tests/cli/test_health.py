"""`kqueue health` against a broker, a port where none is, and another server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kqueue
from kqueue.base.errors import KqueueError
from kqueue.cli.app import kqueue as main
from kqueue.testing import faults
from kqueue.tests.network.tls_harness import authority, broker_pair
from kqueue.tests.waits import eventually


def health(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["health", *arguments])


def url_of(broker: kqueue.Broker, scheme: str = "http") -> str:
    metrics = broker._server.metrics
    assert metrics is not None
    return f"{scheme}://127.0.0.1:{metrics.address.port}"


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(kqueue_metrics_listener="127.0.0.1:0") as broker:
        yield broker


def test_a_broker_that_serves_is_ready(broker: kqueue.Broker) -> None:
    result = health(url_of(broker))
    assert (result.exit_code, result.stdout) == (0, "ready\n")
    assert json.loads(health(url_of(broker), "-o", "json").stdout) == {"ready": True, "reasons": []}


def test_reasons_are_printed_and_the_status_is_1(broker: kqueue.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    why = ["3 logs still to be recovered", "data folder /d can't be used"]
    monkeypatch.setattr("kqueue.telemetry.service.reasons_not_ready", lambda broker: why)
    result = health(url_of(broker))
    assert (result.exit_code, result.stdout) == (1, "3 logs still to be recovered\ndata folder /d can't be used\n")
    assert json.loads(health(url_of(broker), "-o", "json").stdout) == {"ready": False, "reasons": why}


def test_replicas_that_are_behind_are_a_reason_where_they_have_to_be_in_sync(
    broker: kqueue.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kqueue.telemetry.service.reasons_not_in_sync", lambda broker: ["behind"])
    assert health(url_of(broker)).exit_code == 0
    result = health(url_of(broker), "--in-sync")
    assert (result.exit_code, result.stdout) == (1, "behind\n")


def test_a_disk_that_can_not_be_written_is_printed(broker: kqueue.Broker) -> None:
    with faults(broker) as made:
        broker.create_topic("t")
        made.torn_write("t")
        with pytest.raises(KqueueError, match="EIO"):
            broker.topics["t"].produce_all([b"x"])
    result = health(url_of(broker))
    assert (result.exit_code, result.stdout) == (1, "since a failure of its disk 1 partition takes no records\n")


def test_a_store_that_does_not_answer_is_printed_until_it_does() -> None:
    with kqueue.Cluster(2, kqueue_metrics_listener="127.0.0.1:0") as cluster:
        cluster.wait_in_sync()
        url = url_of(cluster.brokers[1])
        cluster.partition(without_store={1})
        eventually(lambda: "the metadata store does not answer: " in health(url).stdout)
        assert health(url).exit_code == 1
        cluster.heal()
        eventually(lambda: health(url).stdout == "ready\n")


def test_no_broker_is_told_with_the_setting(broker: kqueue.Broker) -> None:
    url = url_of(broker)
    broker.stop()
    result = health(url)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"no answer from {url}: ")
    assert result.stdout.endswith("Does the broker run, with kqueue.metrics.listener?\n")


def test_over_tls_the_authority_is_given(tmp_path: Path) -> None:
    prefix, pair = "listener.name.metrics.ssl.keystore", broker_pair()
    keys = {f"{prefix}.type": "PEM", f"{prefix}.certificate.chain": pair.certificate, f"{prefix}.key": pair.key}
    with kqueue.Broker(settings={"kqueue.metrics.listener": "https://127.0.0.1:0", **keys}) as broker:
        (tmp_path / "ca.pem").write_text(authority().certificate)
        assert health(url_of(broker, "https"), "--ca", str(tmp_path / "ca.pem")).output == "ready\n"
        assert health(url_of(broker, "https"), "--ca", str(tmp_path / "none.pem")).exit_code == 2
        assert "CERTIFICATE_VERIFY_FAILED" in health(url_of(broker, "https")).output


def test_another_server_is_told_as_such() -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        result = health(url)
        server.shutdown()
        thread.join()
    assert (result.exit_code, result.stdout) == (1, f"{url} is no broker's: it answered 404 to /readyz\n")


def test_an_address_without_scheme_is_refused() -> None:
    result = health("127.0.0.1:9404")
    assert result.exit_code == 2
    assert "write http://HOST:PORT or https://HOST:PORT" in result.output
