"""Client properties of a file and of variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.base.errors import SettingError
from kqueue.config.client_properties import read_client_properties, security_of
from kqueue.security.sasl.login import SaslLogin


def test_variables_come_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=ann\nsasl.password=x\n")
    properties = read_client_properties(path, {"KQUEUE_CLIENT_SASL_PASSWORD": "secret", "KQUEUE_BOOTSTRAP": "x"})
    assert security_of(properties, path).login == SaslLogin("PLAIN", "ann", "secret")
    with pytest.raises(SettingError, match="did you mean 'KQUEUE_CLIENT_SASL_PASSWORD'"):
        read_client_properties(None, {"KQUEUE_CLIENT_SASL_PASWORD": "x"})
    path.write_text("security.protocol=TLS\n")
    with pytest.raises(SettingError, match=r"client\.properties: security\.protocol=TLS"):
        security_of(read_client_properties(path, {}), path)
