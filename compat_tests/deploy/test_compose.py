"""Compose files: by the specification, by kqueue's own commands, and by their services as processes
of this machine.
"""

from __future__ import annotations

import contextlib
import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from compose_spec import PyCompose

from compat_tests.deploy.command_line import CHECKOUT, DEPLOY, broker_config, parsed
from compat_tests.deploy.processes import free_ports, running
from kqueue.cli.app import kqueue as main
from kqueue.cli.health import URL
from kqueue.client import Client
from kqueue.config.listeners import parse_listeners
from kqueue.tests.waits import eventually

COMPOSE = DEPLOY / "compose"
SETTINGS = DEPLOY / "container" / "server.properties"
FILES = sorted(COMPOSE.glob("*.yaml"))
TOKEN = "a token for these tests"
OF_USER = re.compile(r"\$\{(\w+)(?::[?-][^}]*)?\}")


def services(file: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((COMPOSE / file).read_text())["services"]
    return found


ALL = [(file.name, name) for file in FILES for name in services(file.name)]
BROKERS = [(file, name) for file, name in ALL if name.startswith("broker")]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_files_are_of_the_specification(file: Path) -> None:
    merged = yaml.safe_load(file.read_text())  # with the merge keys of YAML resolved
    assert set(PyCompose.from_json(json.dumps(merged)).service_names()) == set(services(file.name))
    misspelt = {name: {**service, "raed_only": True} for name, service in merged["services"].items()}
    with pytest.raises(ValueError, match="raed_only"):
        PyCompose.from_json(json.dumps({**merged, "services": misspelt}))


@pytest.mark.parametrize(("file", "name"), ALL)
def test_ports_are_bound_to_loopback_and_what_is_built_is_there(file: str, name: str) -> None:
    service = services(file)[name]
    for port in service.get("ports", ()):
        assert port.startswith("127.0.0.1:")
    if "build" in service:
        context = COMPOSE / service["build"]["context"]
        assert context.resolve() == CHECKOUT
        assert (context / service["build"]["dockerfile"]).is_file()
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]
    if service["image"].startswith("kqueue") and "spark" not in service["image"]:
        assert service["read_only"] is True
    else:
        assert re.search(r":[\d.]+$", service["image"])
    everything = set(services(file)) | {one for included in _included(file) for one in services(included)}
    assert set(service.get("depends_on", ())) <= everything
    declared = yaml.safe_load((COMPOSE / file).read_text())["volumes"]
    assert {volume.partition(":")[0] for volume in service.get("volumes", ())} <= set(declared)


def _included(file: str) -> list[str]:
    return list(yaml.safe_load((COMPOSE / file).read_text()).get("include", ()))


@pytest.mark.parametrize(("file", "name"), BROKERS)
def test_settings_of_brokers_are_valid_and_their_ports_published(file: str, name: str) -> None:
    service = services(file)[name]
    config = broker_config(SETTINGS, service["environment"])
    listeners = {one.bind.name: one for one in parse_listeners(config)}
    host, network = listeners["HOST"], listeners["NETWORK"]
    assert service["ports"] == [f"127.0.0.1:{host.bind.port}:{host.bind.port}"]
    assert (host.advertised.host, network.advertised.host) == ("localhost", name)
    store = config["kqueue.cluster.store"]
    if store is not None:
        assert set(re.findall(r"zookeeper-\d", store)) == {one for one in services(file) if one.startswith("zoo")}
        assert config["node.id"] == int(name[-1])
        assert config["inter.broker.listener.name"] == "NETWORK"


def test_servers_of_zookeeper_know_each_other() -> None:
    servers = {name: service for name, service in services("cluster.yaml").items() if name.startswith("zoo")}
    for name, service in servers.items():
        variables = service["environment"]
        assert name == f"zookeeper-{variables['ZOO_MY_ID']}"
        assert re.findall(r"server\.(\d)=zookeeper-(\d):2888:3888;2181", variables["ZOO_SERVERS"]) == [
            (str(number), str(number)) for number in range(1, len(servers) + 1)
        ]


def test_the_job_of_spark_is_one_of_ours() -> None:
    service = services("spark.yaml")["archive"]
    assert service["command"][0] == "kqueue"
    archive = parsed(service["command"][1:])
    assert archive.params["topics"] == ("orders",)
    assert archive.params["folder"] == service["volumes"][0].partition(":")[2]
    image = (CHECKOUT / service["build"]["dockerfile"]).read_text()
    assert f"--owner=185 --group=185 {archive.params['folder']}" in image


def on_this_machine(variables: dict[str, str], ports: dict[tuple[str, str], int], own: str) -> dict[str, str]:
    """Return variables with addresses of loopback, on other ports, in place of the network's.

    Args: ports: by the name of the service and the port in it. own: the service.
    """

    def address(match: re.Match[str]) -> str:
        host = own if match["host"] in ("0.0.0.0", "localhost") else match["host"]
        return f"127.0.0.1:{ports[host, match['port']]}"

    return {
        key: re.sub(r"(?P<host>0\.0\.0\.0|localhost|[a-z]+(?:-\d)?):(?P<port>90\d\d|9404)\b", address, value)
        for key, value in variables.items()
    }


def test_broker_and_console_work_with_the_commands_of_the_file(tmp_path: Path) -> None:
    found = services("broker.yaml")
    ports = dict(zip([("broker", "9092"), ("broker", "9094"), ("broker", "9404")], free_ports(3), strict=True))
    metrics = ports["broker", "9404"]
    broker = {
        **on_this_machine(found["broker"]["environment"], ports, "broker"),
        "KQUEUE_LOG_DIRS": str(tmp_path / "data"),
    }
    command = found["console"]["command"]
    assert parsed(command).params["host"] == "0.0.0.0"
    (console_port,) = free_ports(1)
    words = [*on_this_machine(dict(enumerate(command)), ports, "console").values(), f"--port={console_port}"]
    words[words.index("--host=0.0.0.0")] = "--host=127.0.0.1"
    (variable,) = OF_USER.findall(found["console"]["environment"]["KQUEUE_CONSOLE_TOKEN"])
    with (
        running(["serve", str(SETTINGS)], broker, tmp_path / "broker.log"),
        running(words, {variable: TOKEN}, tmp_path / "console.log"),
    ):
        eventually(lambda: _answers(URL.replace("9404", str(metrics)) + "/readyz"))
        with Client(f"127.0.0.1:{ports['broker', '9094']}") as client:
            assert len(client.metadata([]).brokers) == 1
        page = f"http://127.0.0.1:{console_port}/"
        eventually(lambda: _answers(page))


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        with error:
            return error.code in (401, 403)
    except OSError:
        return False


def test_three_brokers_are_a_cluster_and_one_that_comes_back_is_in_sync_before_it_is_ready(tmp_path: Path) -> None:
    """With a store in SQLite in place of ZooKeeper, which is no package of Python."""
    found = {name: service for name, service in services("cluster.yaml").items() if name.startswith("broker")}
    inside = [(name, port) for name in found for port in (f"909{name[-1]}", "9094", "9404")]
    ports = dict(zip(inside, free_ports(len(inside)), strict=True))

    def broker(name: str) -> contextlib.AbstractContextManager[None]:
        variables = {
            **on_this_machine(found[name]["environment"], ports, name),
            "KQUEUE_CLUSTER_STORE": f"sqlite:{tmp_path / 'store.db'}",
            "KQUEUE_LOG_DIRS": str(tmp_path / name),
            "KQUEUE_METRICS_LISTENER": f"127.0.0.1:{ports[name, '9404']}",
        }
        return running(["serve", str(SETTINGS)], variables, tmp_path / f"{name}.log")

    def is_ready(name: str) -> bool:
        return _answers(f"http://127.0.0.1:{ports[name, '9404']}/readyz?in_sync=true")

    with contextlib.ExitStack() as stack, contextlib.ExitStack() as third:
        for name in ("broker-1", "broker-2"):
            stack.enter_context(broker(name))
        third.enter_context(broker("broker-3"))
        for name in found:
            eventually(lambda name=name: is_ready(name), tmp_path / f"{name}.log")  # type: ignore[misc]
        with Client(f"127.0.0.1:{ports['broker-1', '9091']}") as client:
            brokers = {(one.host, one.port) for one in client.metadata([]).brokers.values()}
            assert brokers == {("127.0.0.1", ports[name, f"909{name[-1]}"]) for name in found}
            _kqueue("topics", "create", "orders", "-b", client_address := f"127.0.0.1:{ports['broker-1', '9091']}")
            third.close()
            eventually(lambda: _in_sync(client) == {1, 2})
            _kqueue("produce", "orders", "-b", client_address, given="two coffees\n")
            with broker("broker-3"):
                eventually(lambda: is_ready("broker-3"), tmp_path / "broker-3.log")
                # other brokers learn of the change in the store when they read it
                eventually(lambda: _in_sync(client) == {1, 2, 3})


def _kqueue(*words: str, given: str = "") -> None:
    done = CliRunner().invoke(main, words, input=given)
    assert done.exit_code == 0, done.output


def _in_sync(client: Client) -> set[int]:
    """Return the in-sync replicas of the topic's only partition."""
    (partition,) = client.metadata(["orders"]).topics["orders"].partitions.values()
    return set(partition.in_sync)
