"""The manifests for Kubernetes: by its schemas, and by what brokers and their endpoints take."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

import kqueue
from compat_tests.deploy.command_line import CHECKOUT, DEPLOY, broker_config, parsed
from compat_tests.deploy.processes import free_ports, running
from kqueue.cli.app import kqueue as main
from kqueue.config.listeners import parse_listeners
from kqueue.config.metrics_listener import metrics_listener
from kqueue.tests.waits import eventually

KUBERNETES = DEPLOY / "kubernetes"
BASE, SECURED = KUBERNETES / "base", KUBERNETES / "secured"
PLAIN = [
    one
    for file in ("broker", "zookeeper", "network")
    for one in yaml.safe_load_all((BASE / f"{file}.yaml").read_text())
]
VERSIONS = ("1.28", kubernetes_validate.latest_version())
"""The oldest that docs/kubernetes.md names, and the newest known."""


def of_kind(kind: str, name: str, manifests: list[dict[str, Any]] = PLAIN) -> dict[str, Any]:
    (found,) = (one for one in manifests if one["kind"] == kind and one["metadata"]["name"] == name)
    return found


STATEFUL = of_kind("StatefulSet", "kqueue")
POD = STATEFUL["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
VARIABLES = {one["name"]: one for one in CONTAINER["env"]}


def rendered(folder: Path) -> list[dict[str, Any]]:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl to build the overlay")
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def check(manifest: dict[str, Any]) -> None:
    for version in VERSIONS:
        kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("manifest", PLAIN, ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_manifests_have_the_fields_of_kubernetes(manifest: dict[str, Any]) -> None:
    check(manifest)
    with pytest.raises(kubernetes_validate.ValidationError):
        check({**manifest, "sepc": {}})


@pytest.mark.parametrize("folder", [BASE, SECURED], ids=lambda folder: folder.name)
def test_what_kustomize_makes_is_valid_and_names_what_there_is(folder: Path) -> None:
    manifests = rendered(folder)
    for manifest in manifests:
        check(manifest)
    pod = of_kind("StatefulSet", "kqueue", manifests)["spec"]["template"]["spec"]
    maps = {one["metadata"]["name"]: one for one in manifests if one["kind"] == "ConfigMap"}
    (mounted,) = (one["configMap"]["name"] for one in pod["volumes"] if "configMap" in one)
    assert maps[mounted]["data"]["server.properties"] == (folder / "server.properties").read_text()
    (container,) = pod["containers"]
    assert container["image"] == "registry.example.com/kqueue:0.1.0"
    claims = {one["metadata"]["name"] for one in STATEFUL["spec"]["volumeClaimTemplates"]}
    assert {one["name"] for one in container["volumeMounts"]} <= claims | {one["name"] for one in pod["volumes"]}
    scheme = "HTTPS" if folder == SECURED else None
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"].get("scheme") == scheme
        assert container[probe]["httpGet"]["port"] == "metrics"
    # a variable is replaced only after those that it names
    order = [one["name"] for one in container["env"]]
    for name in re.findall(r"\$\((\w+)\)", container["env"][order.index("KQUEUE_ADVERTISED_LISTENERS")]["value"]):
        assert order.index(name) < order.index("KQUEUE_ADVERTISED_LISTENERS")


def test_selectors_are_labels_of_the_pods() -> None:
    for name in ("kqueue", "zookeeper"):
        stateful = of_kind("StatefulSet", name)
        labels = stateful["spec"]["template"]["metadata"]["labels"]
        assert stateful["spec"]["selector"]["matchLabels"] == labels
        assert of_kind("Service", stateful["spec"]["serviceName"])["spec"]["selector"] == labels
        assert of_kind("PodDisruptionBudget", name)["spec"]["selector"]["matchLabels"] == labels
        assert of_kind("NetworkPolicy", name)["spec"]["podSelector"]["matchLabels"] == labels
        affinity = stateful["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["labelSelector"]["matchLabels"] == labels
        ports = {one["name"] for one in stateful["spec"]["template"]["spec"]["containers"][0]["ports"]}
        policy = of_kind("NetworkPolicy", name)["spec"]["ingress"]
        assert {one["port"] for rule in policy for one in rule["ports"]} == ports
    assert of_kind("Service", "kqueue")["spec"]["selector"] == STATEFUL["spec"]["template"]["metadata"]["labels"]


def test_brokers_have_no_rights_and_write_to_their_volume_alone() -> None:
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert f"USER {POD['securityContext']['runAsUser']}:" in (DEPLOY / "container" / "Dockerfile").read_text()
    context = CONTAINER["securityContext"]
    assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert [one["name"] for one in CONTAINER["volumeMounts"] if not one.get("readOnly")] == ["data", "tmp"]


def variables(pod: str) -> dict[str, str]:
    """The variables of a broker's pod, as the kubelet makes them."""
    known = {"POD_NAME": pod, "NAMESPACE": "queues", "KQUEUE_NODE_ID": pod.rpartition("-")[2]}
    text = VARIABLES["KQUEUE_ADVERTISED_LISTENERS"]["value"]
    known["KQUEUE_ADVERTISED_LISTENERS"] = re.sub(r"\$\((\w+)\)", lambda one: known[one[1]], text)
    return known


@pytest.mark.parametrize("number", [1, 2, 3])
def test_settings_of_the_base_are_valid(number: int) -> None:
    first = STATEFUL["spec"]["ordinals"]["start"]
    assert first <= number < first + STATEFUL["spec"]["replicas"]
    pod = f"{STATEFUL['metadata']['name']}-{number}"
    assert str(parsed(CONTAINER["args"]).params["file"]) == "/etc/kqueue/server.properties"
    config = broker_config(BASE / "server.properties", variables(pod))
    assert config["node.id"] == number
    (listener,) = parse_listeners(config)
    assert listener.advertised.host == f"{pod}.{STATEFUL['spec']['serviceName']}.queues.svc"
    ports = {one["name"]: one["containerPort"] for one in CONTAINER["ports"]}
    assert (listener.bind.port, metrics_listener(config).port) == (ports["kafka"], ports["metrics"])
    assert config["kqueue.stop.timeout.ms"] < POD["terminationGracePeriodSeconds"] * 1000
    (mount,) = (one for one in CONTAINER["volumeMounts"] if one["name"] == "data")
    assert all(folder.startswith(mount["mountPath"]) for folder in config["log.dirs"])
    named = re.findall(r"(zookeeper-\d)\.zookeeper:2181", config["kqueue.cluster.store"])
    servers = of_kind("StatefulSet", "zookeeper")
    start, count = servers["spec"]["ordinals"]["start"], servers["spec"]["replicas"]
    assert named == [f"zookeeper-{one}" for one in range(start, start + count)]


def test_settings_of_the_overlay_are_valid_and_open_to_users_alone(tmp_path: Path) -> None:
    text = (SECURED / "server.properties").read_text()
    for name, files in (("tls", ("tls.crt", "tls.key", "ca.crt")), ("passwords", ("zookeeper", "broker", "admin"))):
        folder = tmp_path / name
        folder.mkdir()
        for file in files:
            (folder / file).write_text(f"{file} of tests")
        text = text.replace(f"/etc/kqueue-{name}", str(folder))
    file = tmp_path / "server.properties"
    file.write_text(text)
    config = broker_config(file, variables("kqueue-1"))
    assert config["kqueue.allow.insecure"] is False
    (listener,) = parse_listeners(config)
    assert listener.protocol.name == "SASL_SSL"
    assert config["kqueue.zookeeper.password"] == "zookeeper of tests"
    assert 'password="broker of tests"' in config["sasl.jaas.config"]
    assert config["ssl.keystore.key"] == "tls.key of tests"


def test_the_overlay_serves_users_with_passwords_and_metrics_by_tls(tmp_path: Path) -> None:
    """With the certificates and Secrets of docs/kubernetes.md, and SQLite in place of ZooKeeper."""
    page = (CHECKOUT / "docs" / "kubernetes.md").read_text()
    for line in re.findall(r"^(?:kqueue certs|sed) .*$", page, re.MULTILINE):
        if line.startswith("sed "):
            subprocess.run(["bash", "-c", line], cwd=tmp_path, check=True)
        else:
            words = [*shlex.split(line)[1:], "--folder", str(tmp_path / "certs")]
            made = CliRunner().invoke(main, [*words, *(["--host", "127.0.0.1"] if "broker" in words else [])])
            assert made.exit_code == 0, made.output
    tls, passwords = tmp_path / "kqueue-tls", tmp_path / "kqueue-passwords"
    for folder in (tls, passwords):
        folder.mkdir()
    for name, source in (("tls.crt", "tls.crt"), ("tls.key", "tls.key"), ("ca.crt", "certs/ca.pem")):
        shutil.copy(tmp_path / source, tls / name)
    for user in ("broker", "admin", "zookeeper"):
        (passwords / user).write_text(f"{user}-secret")
    text = (SECURED / "server.properties").read_text()
    text = text.replace("/etc/kqueue-tls", str(tls)).replace("/etc/kqueue-passwords", str(passwords))
    (tmp_path / "server.properties").write_text(
        "".join(line for line in text.splitlines(keepends=True) if not line.startswith("kqueue.zookeeper."))
    )
    port, metrics = free_ports(2)
    given = {
        "KQUEUE_LISTENERS": f"CLIENTS://127.0.0.1:{port}",
        "KQUEUE_ADVERTISED_LISTENERS": f"CLIENTS://127.0.0.1:{port}",
        "KQUEUE_METRICS_LISTENER": f"https://127.0.0.1:{metrics}",
        "KQUEUE_CLUSTER_STORE": f"sqlite:{tmp_path / 'store.db'}",
        "KQUEUE_LOG_DIRS": str(tmp_path / "data"),
    }
    ca = str(tls / "ca.crt")
    health = ["health", f"https://127.0.0.1:{metrics}", "--in-sync", "--ca", ca]
    with running(["serve", str(tmp_path / "server.properties")], given, tmp_path / "log"):
        eventually(lambda: CliRunner().invoke(main, health).exit_code == 0, tmp_path / "log")
        for user, password, code in (("admin", "admin-secret", 0), ("admin", "wrong", 1)):
            client = {
                "security.protocol": "SASL_SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": ca,
                "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": user, "sasl.password": password,
            }  # fmt: skip
            file = tmp_path / "client.properties"
            file.write_text("".join(f"{key}={value}\n" for key, value in client.items()))
            words = ["cluster", "brokers", "-b", f"127.0.0.1:{port}", "--command-config", str(file)]
            assert CliRunner().invoke(main, words).exit_code == code


def test_paths_of_the_probes_are_answered() -> None:
    with kqueue.Broker(kqueue_metrics_listener="127.0.0.1:0") as broker:
        metrics = broker._server.metrics
        assert metrics is not None
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            url = f"http://127.0.0.1:{metrics.address.port}{CONTAINER[probe]['httpGet']['path']}"
            with urllib.request.urlopen(url) as answer:
                assert answer.status == 200
    assert CONTAINER["readinessProbe"]["httpGet"]["path"] == "/readyz?in_sync=true"


def test_the_page_names_the_secrets_and_labels() -> None:
    page = (CHECKOUT / "docs" / "kubernetes.md").read_text()
    patch = yaml.safe_load((SECURED / "broker.yaml").read_text())
    for volume in patch["spec"]["template"]["spec"]["volumes"]:
        assert volume["secret"]["secretName"] in page
    for label in ("kqueue-client", "kqueue-metrics"):
        assert label in page
        assert label in (BASE / "network.yaml").read_text()
