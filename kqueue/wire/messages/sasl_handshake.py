"""SaslHandshake (key 17): choose a SASL mechanism."""

from __future__ import annotations

from kqueue.schema import array, field, int16, message, string


@message(api_key=17, versions="0-1")
class SaslHandshakeRequest:
    mechanism: str = field(string)


@message(api_key=17, versions="0-1")
class SaslHandshakeResponse:
    error_code: int = field(int16)
    mechanisms: list[str] = field(array(string))
