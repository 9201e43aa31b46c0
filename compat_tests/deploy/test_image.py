"""The image: by a linter, by what it copies and starts, and by its steps in a clean folder."""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from compat_tests.deploy.command_line import CHECKOUT, DEPLOY, broker_config, parsed
from kqueue.base.errors import SettingError
from kqueue.cli.app import kqueue
from kqueue.config.listeners import parse_listeners

CONTAINER = DEPLOY / "container"
SETTINGS = CONTAINER / "server.properties"
PAGE = (CHECKOUT / "docs" / "containers.md").read_text()


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rehearse", CONTAINER / "rehearse.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["rehearse"] = module
    spec.loader.exec_module(module)
    return module


SCRIPT = load_script()
BUILD, IMAGE = SCRIPT.parse((CONTAINER / "Dockerfile").read_text())


def test_the_dockerfile_is_as_a_linter_wants_it() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), CONTAINER / "Dockerfile"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_bases_have_a_version_and_nothing_runs_as_root() -> None:
    assert re.fullmatch(r"debian:\d+\.\d+-slim", BUILD.base)
    assert re.fullmatch(r"gcr\.io/distroless/python3-debian12:nonroot", IMAGE.base)
    user, group = map(int, IMAGE.last("USER").split(":"))
    assert user == group >= 10_000


def copied(stage: Any) -> list[str]:
    texts = [one.text for one in stage.instructions if one.name == "COPY" and "--from" not in one.text]
    return [source for text in texts for source in text.split()[:-1]]


def test_what_is_copied_is_there_and_in_the_context() -> None:
    rules = [line for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    let_in = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    for source in (*copied(BUILD), *copied(IMAGE)):
        assert (CHECKOUT / source).exists(), source
        assert source in let_in, source
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    packages = {name.partition(".")[0] for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    backend = f"{project['build-system']['build-backend']}.py"
    assert {"pyproject.toml", "setup.py", "LICENSE", backend, project["project"]["readme"], *packages} <= set(
        copied(BUILD)
    )
    assert not any(fnmatch.fnmatch("kqueue/cli/app.py", rule) for rule in rules if rule != "*" and rule[0] != "!")


def test_extras_of_the_image_exist() -> None:
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (given,) = [one.text for one in BUILD.instructions if one.text.startswith("EXTRAS=")]
    assert set(given.removeprefix("EXTRAS=").split(",")) <= extras.keys()


def test_it_serves_the_settings_that_are_copied_and_stops_by_term() -> None:
    assert IMAGE.words("ENTRYPOINT") == ["kqueue"]
    target = next(one.text.split()[-1] for one in IMAGE.instructions if one.text.startswith("deploy/container/server"))
    assert str(parsed(IMAGE.words("CMD")).params["file"]) == target
    assert IMAGE.last("STOPSIGNAL") == "SIGTERM"
    check = json.loads(IMAGE.last("HEALTHCHECK").partition(" CMD ")[2])
    config = broker_config(SETTINGS, {"KQUEUE_ALLOW_INSECURE": "true"})
    assert parsed(check[1:]).params["url"] == f"http://{config['kqueue.metrics.listener']}"
    assert config["log.dirs"] == [IMAGE.last("VOLUME")]
    assert [str(one.bind.port) for one in parse_listeners(config)] == IMAGE.last("EXPOSE").split()


def test_the_page_has_what_the_image_has() -> None:
    config = broker_config(SETTINGS, {"KQUEUE_ALLOW_INSECURE": "true"})
    defaults = dict(re.findall(r"^\| `(KQUEUE_\w+)` \| `([^`]+)` \|", PAGE, re.MULTILINE))
    assert defaults == {
        "KQUEUE_LISTENERS": ",".join(config["listeners"]),
        "KQUEUE_ADVERTISED_LISTENERS": ",".join(config["advertised.listeners"]),
        "KQUEUE_METRICS_LISTENER": config["kqueue.metrics.listener"],
        "KQUEUE_ALLOW_INSECURE": "false",
    }
    (given,) = [one.text for one in BUILD.instructions if one.text.startswith("EXTRAS=")]
    row = re.search(r"^\| extras \| (.*);", PAGE, re.MULTILINE)
    assert row is not None
    assert ",".join(re.findall(r"`(\w+)`", row[1])) == given.removeprefix("EXTRAS=")
    assert f"| user | {IMAGE.last('USER').partition(':')[0]}," in PAGE


def test_an_open_listener_is_refused_unless_it_is_allowed() -> None:
    with pytest.raises(SettingError, match="kqueue.allow.insecure=true"):
        broker_config(SETTINGS, {})
    assert CliRunner().invoke(kqueue, ["serve", str(SETTINGS), "--check"]).exit_code == 2


def test_variables_of_a_container_go_before_its_settings() -> None:
    variables = {
        "KQUEUE_ALLOW_INSECURE": "true",
        "KQUEUE_ADVERTISED_LISTENERS": "PLAINTEXT://broker1:9092",
        "KQUEUE_NUM_PARTITIONS": "3",
        "KQUEUE_PORT_9092_TCP_ADDR": "10.0.0.1",
    }
    config = broker_config(SETTINGS, variables)
    assert config["advertised.listeners"] == ["PLAINTEXT://broker1:9092"]
    assert config["num.partitions"] == 3


def test_an_instruction_that_is_not_known_is_refused() -> None:
    with pytest.raises(SCRIPT.RehearsalFailed, match="ADD is not known"):
        SCRIPT.parse("FROM debian:12.11-slim AS build\nADD x /x\n")


def why_no_rehearsal() -> str:
    if os.geteuid() != 0:
        return "mounts and another user need root"
    missing = [name for name in ("unshare", "nsenter", "apt-get", "dpkg-deb", "gcc") if shutil.which(name) is None]
    if missing:
        return f"there is no {', '.join(missing)}"
    release = Path("/etc/debian_version")
    if not release.exists() or not release.read_text().startswith("12."):
        return "the steps are for Debian 12"
    tried = subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else "this machine allows no namespaces"


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_the_steps_make_an_image_below_100_mb_that_serves_without_rights(tmp_path: Path, compiled: bool) -> None:
    """By root alone, in namespaces of its own: read-only, as another user, with a clean stop."""
    if why := why_no_rehearsal():
        pytest.skip(why)
    subprocess.run(["apt-get", "update", "-q"], capture_output=True, check=False)
    options = ["--folder", tmp_path / "work", "--build-arg", f"COMPILE={int(compiled)}"]
    done = subprocess.run(
        [sys.executable, CONTAINER / "rehearse.py", *options], capture_output=True, text=True, check=False
    )
    shutil.rmtree(tmp_path / "work", ignore_errors=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    print(report)
    assert report["bytes"] < 100_000_000
    assert report["in_tmp"] == "[]"
    assert report["stop_status"] == 0
    assert report["version"].endswith("compiled" if compiled else "pure Python")
    if compiled:
        stated = re.search(r"^\| size \| (\d+) MB, (\d+) MB of which is transferred", PAGE, re.MULTILINE)
        assert stated is not None
        for number, key in zip(stated.groups(), ("bytes", "compressed_bytes"), strict=True):
            assert report[key] / 1e6 == pytest.approx(int(number), rel=0.05)


def test_a_builder_makes_the_image(tmp_path: Path) -> None:
    builder = next((name for name in ("docker", "podman") if shutil.which(name)), None)
    if builder is None or subprocess.run([builder, "info"], capture_output=True, check=False).returncode != 0:
        pytest.skip("there is no builder that runs: docker or podman")
    image = "kqueue:test"
    subprocess.run([builder, "build", "-q", "-f", CONTAINER / "Dockerfile", "-t", image, CHECKOUT], check=True)
    size = subprocess.run(
        [builder, "image", "inspect", "-f", "{{.Size}}", image], capture_output=True, text=True, check=True
    )
    assert int(size.stdout) < 100_000_000
    version = subprocess.run(
        [builder, "run", "--rm", "--read-only", image, "version"], capture_output=True, text=True, check=True
    )
    assert ", compiled" in version.stdout
