from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.errors import PluginError, SettingError
from kqueue.security.acls import AclIndex
from kqueue.security.authorizer import AuthorizerSetup
from kqueue.security.authorizers import AUTHORIZERS, KAFKA_NAMES, authorizer_name, is_authorizer
from kqueue.security.standard_authorizer import StandardAuthorizer
from kqueue.tests.tables import for_each

SETUP = AuthorizerSetup(AclIndex())


def test_kafkas_name_is_the_standard_authorizer() -> None:
    (kafkas,) = KAFKA_NAMES
    assert is_authorizer(kafkas)
    assert isinstance(AUTHORIZERS.get(authorizer_name(kafkas))(SETUP), StandardAuthorizer)


def test_other_names_are_theirs_and_paths_wait_for_the_start() -> None:
    assert is_authorizer("")
    assert is_authorizer("a.module:Name")
    assert authorizer_name("standard") == "standard"
    with pytest.raises(SettingError, match="did you mean 'standard'"):
        is_authorizer("standart")


def test_authorizers_with_zookeeper_are_refused() -> None:
    with pytest.raises(SettingError, match="it kept ACLs in ZooKeeper"):
        is_authorizer("kafka.security.authorizer.AclAuthorizer")


def _fails(setup: AuthorizerSetup) -> Any:
    raise RuntimeError("no")


@for_each("factory, words", [(_fails, "could not be made"), (lambda setup: 3, "without the method")])
def test_object_that_is_no_authorizer_is_refused(factory: Any, words: str) -> None:
    with pytest.raises(PluginError, match=f"authorizer 'mine' of here.*{words}"):
        AUTHORIZERS.guarded("mine", factory, "here")(SETUP)
    with pytest.raises(PluginError, match="expected a class or callable"):
        AUTHORIZERS.guarded("mine", 3, "here")  # type: ignore[arg-type]
