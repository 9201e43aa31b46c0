"""The example for Kubernetes: by its schemas, by Spark's classes, and by a linter of images."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from compat_tests.spark.spark_home import INSTALLED
from kqueue.cli.app import kqueue

CHECKOUT = Path(__file__).parents[2]
EXAMPLE = CHECKOUT / "examples" / "spark-on-kubernetes"
IMAGE = EXAMPLE / "Dockerfile"
MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((EXAMPLE / "job.yaml").read_text()))
(POD,) = (one["spec"]["template"]["spec"] for one in MANIFESTS if one["kind"] == "Job")
(DRIVER,) = POD["containers"]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: one["kind"])
def test_manifests_have_the_fields_of_kubernetes(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**manifest, "sepc": {}}, kubernetes_validate.latest_version(), strict=True)


def test_names_in_the_manifests_agree() -> None:
    by_kind = {one["kind"]: one for one in MANIFESTS}
    service, job = by_kind["Service"], by_kind["Job"]
    settings = _settings()
    assert service["spec"]["selector"] == job["spec"]["template"]["metadata"]["labels"]
    assert settings["spark.driver.host"] == service["metadata"]["name"]
    ports = [str(port["port"]) for port in service["spec"]["ports"]]
    assert ports == [settings["spark.driver.port"], settings["spark.blockManager.port"]]
    assert POD["serviceAccountName"] == by_kind["ServiceAccount"]["metadata"]["name"]
    assert settings["spark.kubernetes.container.image"] == DRIVER["image"]
    named = set(re.findall(r"\$\((\w+)\)", " ".join(DRIVER["command"])))
    assert named == {one["name"] for one in DRIVER["env"]}


def test_the_command_is_one_of_ours() -> None:
    command, context = kqueue, None
    words = DRIVER["command"]
    assert words[0] == "kqueue"
    for name in words[1:3]:
        context = command.make_context(name, [*words[1:3]], parent=context, resilient_parsing=True)
        command = command.get_command(context, name)
    parsed = command.make_context("archive", words[3:], parent=context)
    assert parsed.params["master"] == "k8s://https://kubernetes.default.svc"
    assert parsed.params["topics"] == ("orders",)


def test_settings_are_those_of_spark() -> None:
    known = b"".join(_names(jar) for jar in (INSTALLED / "jars").glob("spark-*_2.13-*.jar") if "mllib" not in jar.name)
    for name in _settings():
        volume = name.startswith("spark.kubernetes.executor.volumes.")
        assert (b"spark.kubernetes.executor.volumes." if volume else name.encode()) in known, name


def test_the_image_is_as_a_linter_wants_it() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), IMAGE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_image_gets_what_it_installs() -> None:
    text = IMAGE.read_text()
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in line.split()]
    assert all((CHECKOUT / name).exists() for name in copied)
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    packages = {name.partition(".")[0] for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    backend = f"{project['build-system']['build-backend']}.py"
    assert {"pyproject.toml", backend, project["project"]["readme"], *packages} <= set(copied)
    (extra,) = re.findall(r"pip install .*/tmp/kqueue\[(\w+)\]", text)
    assert extra in project["project"]["optional-dependencies"]
    assert f"--uid {re.findall(r'^USER (.*)$', text, re.MULTILINE)[0]} " in text


def test_sparks_script_starts_executors_of_this_spark() -> None:
    """`entrypoint.sh` of Spark's image runs this class, with these options."""
    (jar,) = (INSTALLED / "jars").glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as classes:
        backend = classes.read("org/apache/spark/scheduler/cluster/k8s/KubernetesExecutorBackend$.class")
    known = set(re.findall(rb"--[a-zA-Z-]+", backend))
    options = ("driver-url", "executor-id", "cores", "app-id", "hostname", "resourceProfileId", "podName")
    assert {f"--{name}".encode() for name in options} <= known


def _settings() -> dict[str, str]:
    given = [word.removeprefix("--conf=") for word in DRIVER["command"] if word.startswith("--conf=")]
    return dict(one.split("=", 1) for one in given)


def _names(jar: Path) -> bytes:
    with zipfile.ZipFile(jar) as classes:
        return b"".join(
            classes.read(name)
            for name in classes.namelist()
            if re.search(r"/(deploy/k8s/Config|internal/config/package)\$?\.class$", name)
        )
