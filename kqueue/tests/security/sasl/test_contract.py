"""What all mechanisms share."""

from __future__ import annotations

import pytest

from kqueue.security.errors import SaslAuthenticationFailed
from kqueue.security.sasl.contract import decoded, invalid_credentials, malformed


def test_errors_name_the_mechanism_and_nothing_of_the_message():
    assert str(invalid_credentials("PLAIN")) == "Authentication failed: invalid credentials with SASL mechanism PLAIN"
    assert str(malformed("PLAIN", "a user")) == "Authentication failed: expected a user with SASL mechanism PLAIN"
    with pytest.raises(SaslAuthenticationFailed) as error:
        decoded(b"secret\xff", "PLAIN", "text")
    assert "secret" not in str(error.value)
    assert error.value.__suppress_context__
