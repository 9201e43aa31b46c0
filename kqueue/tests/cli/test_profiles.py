from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.cli.profiles import ProfileError, Profiles, config_folder


def test_the_folder_is_that_of_xdg() -> None:
    assert config_folder({"XDG_CONFIG_HOME": "/etc/xdg"}) == Path("/etc/xdg/kqueue")
    for environment in ({}, {"XDG_CONFIG_HOME": ""}, {"XDG_CONFIG_HOME": "relative"}):
        assert config_folder(environment) == Path.home() / ".config" / "kqueue"


def test_values_go_round(tmp_path: Path) -> None:
    profiles = Profiles(tmp_path)
    properties = {"a": " leading", "b": "back\\slash", "c": "two\nlines\t", "d": "ü=:#!", "e": ""}
    profiles.write("p", properties)
    assert profiles.read("p") == properties
    with pytest.raises(ProfileError, match="can't be called"):
        profiles.path("a/b")
