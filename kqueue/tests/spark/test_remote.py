from __future__ import annotations

import socket
import sys
from types import ModuleType

import pytest

from kqueue.base.errors import ExtraNeeded
from kqueue.spark import remote as module
from kqueue.spark import session as sessions
from kqueue.spark.errors import OptionError, PipelineFailed
from kqueue.tests.tables import for_each


@pytest.mark.parametrize(
    ("master", "variable", "url"),
    [
        ("sc://host:15002", None, "sc://host:15002"),
        (None, "sc://host", "sc://host"),
        ("local[2]", "sc://host", None),
        (None, "local[2]", None),
        (None, None, None),
    ],
)
def test_server_url_comes_from_master_or_variable(
    monkeypatch: pytest.MonkeyPatch, master: str | None, variable: str | None, url: str | None
) -> None:
    monkeypatch.delenv(module.VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(module.VARIABLE, variable)
    assert module.server_url(master) == url


def test_a_spark_of_its_own_does_not_see_the_server() -> None:
    for environment in ({module.VARIABLE: "sc://host"}, {module.VARIABLE: "local[2]"}, {}):
        kept = dict(environment)
        with module.no_server(environment):
            assert "sc://host" not in environment.values()
            assert environment in ({}, kept)
        assert environment == kept


@for_each(
    "url, address",
    [
        ("sc://host", ("host", module.PORT)),
        ("sc://host:1", ("host", 1)),
        ("sc://host:1/;user_id=ann;token=x", ("host", 1)),
        ("sc://[::1]:1", ("::1", 1)),
    ],
)
def test_server_address_is_parsed_from_its_url(url: str, address: tuple[str, int]) -> None:
    assert module._address(url) == address


@for_each("url", ["sc://", "sc://host:x", "sc://host:70000", "sc://[::1"])
def test_malformed_remote_address_is_refused(url: str) -> None:
    with pytest.raises(OptionError, match="is no address of a Spark Connect server: expected sc://HOST:PORT"):
        module._address(url)


def test_unreachable_server_is_reported_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(PipelineFailed, match=rf"^no Spark Connect server answers at 127.0.0.1:{port} \(Connection"):
        module.connect(None, "app", f"sc://127.0.0.1:{port}", {}, {})


def test_settings_of_the_server_are_refused() -> None:
    with pytest.raises(OptionError, match=r"^spark.archives can't be set through Spark Connect"):
        module.connect(None, "app", "sc://127.0.0.1:1", {}, {"spark.archives": "environment.tar.gz"})


class Builder:
    """A builder of pyspark without grpcio."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}

    def __getattr__(self, name: str) -> object:
        def take(*words: str) -> Builder:
            self.given |= {name: words[0]} if len(words) == 1 else dict([words])
            return self

        return take

    def getOrCreate(self) -> None:
        raise ImportError("grpcio >= 1.76.0 must be installed")


def test_a_session_has_settings_of_its_own_only() -> None:
    pyspark = ModuleType("pyspark.sql")
    pyspark.SparkSession = type("SparkSession", (), {"builder": Builder()})  # type: ignore[attr-defined]
    ours = {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"}
    with socket.create_server(("127.0.0.1", 0)) as there:
        url = f"sc://127.0.0.1:{there.getsockname()[1]}"
        with pytest.raises(ExtraNeeded, match=r"grpcio.*spark-connect"):
            module.connect(pyspark, "app", url, ours, {"spark.sql.session.timeZone": "CET"})
    settings = pyspark.SparkSession.builder.given
    assert settings == {"appName": "app", "remote": url, "spark.sql.session.timeZone": "CET"}


def test_a_session_of_a_program_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = ModuleType("pyspark.sql.connect.session")
    active: list[object | None] = [None]
    methods = {name: staticmethod(lambda: active[0]) for name in ("getActiveSession", "_get_default_session")}
    connect.SparkSession = type("SparkSession", (), methods)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, connect.__name__, connect)
    assert not sessions._is_connected()
    active[0] = object()
    assert sessions._is_connected()
