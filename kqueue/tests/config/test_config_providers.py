"""Values that config providers keep, in settings of a file and of the command line."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from kqueue.base.errors import SettingError
from kqueue.tests.config.configs import read_config
from kqueue.tests.tables import for_each

PROVIDERS = """config.providers=env,file,dir
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
"""


def test_values_of_config_providers_are_read_and_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secrets.properties").write_text("key=4711\nbad=x4711\n")
    (tmp_path / "partitions").write_text("7\n")
    monkeypatch.setenv("SAMPLE_RACK", "r1")
    file = tmp_path / "server.properties"
    lines = f"broker.rack=${{env:SAMPLE_RACK}}-a\nlog.dir=/d\nnum.partitions=${{dir:{tmp_path}:partitions}}\n"
    file.write_text(f"{PROVIDERS}{lines}ssl.key.password=${{file:{tmp_path}/secrets.properties:key}}\n")
    config = read_config(file)
    assert (config["broker.rack"], config["num.partitions"], config["ssl.key.password"]) == ("r1-a", 7, "4711")
    file.write_text(f"{PROVIDERS}num.partitions=${{file:{tmp_path}/secrets.properties:bad}}\n")
    with pytest.raises(SettingError, match="line 5: num.partitions: expected a 32-bit number") as caught:
        read_config(file)
    assert "4711" not in "".join(traceback.format_exception(caught.value))


def test_a_file_without_providers_has_references_as_text(tmp_path: Path) -> None:
    assert read_config(pairs=["broker.rack=${env:HOME}"])["broker.rack"] == "${env:HOME}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${env:SAMPLE_NONE}", "broker.rack: .{env:SAMPLE_NONE}: there is no environment variable SAMPLE_NONE"),
        ("${vault:a:b}", "config.providers names no 'vault'"),
        ("${file:/nowhere:key}", "/nowhere can't be read: No such file"),
        ("${file:HERE/p:keyy}", "p has no key 'keyy'; did you mean 'key'"),
        ("${file:key}", "an absolute path, found ''"),
        ("${dir:HERE:../x}", "expected the name of a file in"),
        ("${dir:HERE:none}", "none can't be read"),
    ],
)
def test_value_missing_from_a_config_provider_is_named(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "p").write_text("key=4711\n")
    file = tmp_path / "server.properties"
    file.write_text(f"{PROVIDERS}broker.rack={text.replace('HERE', str(tmp_path))}\n")
    with pytest.raises(SettingError, match=words):
        read_config(file)


def test_config_providers_read_allowed_paths_and_variables_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "p").write_text("key=v\n")
    (inside / "link").symlink_to(outside / "p")
    monkeypatch.setenv("SAMPLE_A", "a")
    monkeypatch.setenv("OTHER_A", "a")
    limits = [
        *PROVIDERS.split(),
        f"config.providers.file.param.allowed.paths={inside}",
        f"config.providers.dir.param.allowed.paths={inside},/x",
        "config.providers.env.param.allowlist.pattern=SAMPLE_.*",
    ]
    for reference in (f"${{file:{inside}/p:key}}", f"${{dir:{inside}:p}}", "${env:SAMPLE_A}"):
        assert read_config(pairs=[*limits, f"broker.rack={reference}"])["broker.rack"] in ("v", "key=v", "a")
    for reference, words in (
        (f"${{file:{outside}/p:key}}", "is not in config.providers.file.param.allowed.paths"),
        (f"${{file:{inside}/link:key}}", "is not in config.providers.file.param.allowed.paths"),
        (f"${{dir:{outside}:p}}", "is not in config.providers.dir.param.allowed.paths"),
        (f"${{dir:{inside}:link}}", "is not in config.providers.dir.param.allowed.paths"),
        ("${env:OTHER_A}", "allowlist.pattern does not match the variable OTHER_A"),
    ):
        with pytest.raises(SettingError, match=words):
            read_config(pairs=[*limits, f"broker.rack={reference}"])


@for_each("given", ["", "com.example.VaultConfigProvider"])
def test_config_providers_of_other_classes_are_refused(given: str) -> None:
    with pytest.raises(SettingError, match="config.providers.vault.class: expected one of .*EnvVarConfigProvider"):
        read_config(pairs=["config.providers=vault", f"config.providers.vault.class={given}"])


@for_each(
    "provider, misspelt, right",
    [
        ("FileConfigProvider", "allowed.path", "allowed.paths"),
        ("DirectoryConfigProvider", "allowlist.pattern", "allowed.paths"),
        ("EnvVarConfigProvider", "allowed.pattern", "allowlist.pattern"),
    ],
)
def test_a_bound_of_a_config_provider_that_is_misspelt_is_refused(provider: str, misspelt: str, right: str) -> None:
    start = "config.providers.x"
    pairs = [
        "config.providers=x",
        f"{start}.class=org.apache.kafka.common.config.provider.{provider}",
        f"{start}.param.{misspelt}=/etc",
    ]
    with pytest.raises(SettingError, match=f"^{start}.param.{misspelt}: expected {start}.param.{right}$"):
        read_config(pairs=pairs)
