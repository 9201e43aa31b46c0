"""OAUTHBEARER on the client's side: where the token comes from. Source: Kafka's
OAuthBearerLoginCallbackHandler, ClientCredentialsJwtRetriever, FileJwtRetriever; KIP-768, KIP-1139;
RFC 6749, section 4.4.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote_plus, unquote, urlencode, urlsplit
from urllib.request import Request

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import SettingError
from kqueue.config.http_client import HttpOptions, read_bounded, read_url
from kqueue.config.tls_client import TlsClientSettings
from kqueue.config.tls_properties import tls_options
from kqueue.security.errors import SaslAuthenticationFailed
from kqueue.security.jaas import OAUTHBEARER_MODULE, LoginModule
from kqueue.security.sasl.config import CLIENT_ID, CLIENT_SECRET, TOKEN_URL
from kqueue.security.sasl.config import TOKEN_SCOPE as SCOPE
from kqueue.security.sasl.contract import ClientMechanism
from kqueue.security.sasl.oauthbearer import OAUTHBEARER, TOKEN_CHARACTERS_MAX, OAuthBearerClient

URLENCODE = "sasl.oauthbearer.header.urlencode"
HANDLER_CLASS, RETRIEVER_CLASS = "sasl.login.callback.handler.class", "sasl.oauthbearer.jwt.retriever.class"
READ_MS, RETRY_MS, RETRY_MS_MAX = (
    "sasl.login.read.timeout.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.login.retry.backoff.max.ms",
)
TOKEN_PROPERTIES: Mapping[str, str | None] = {
    TOKEN_URL: None,
    CLIENT_ID: None,
    CLIENT_SECRET: None,
    SCOPE: None,
    URLENCODE: "false",
    HANDLER_CLASS: None,
    RETRIEVER_CLASS: None,
    READ_MS: "10000",
    RETRY_MS: "100",
    RETRY_MS_MAX: "10000",
}
"""The properties with their defaults. Kafka waits for an answer without an end by default."""
TOKEN_WITHOUT_EFFECT = (
    "sasl.login.connect.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
)
"""Those of Kafka's own timing and checks, which are accepted."""
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
_CLASSES = {
    HANDLER_CLASS: ("OAuthBearerLoginCallbackHandler", "secured.OAuthBearerLoginCallbackHandler"),
    RETRIEVER_CLASS: ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever"),
}
ANSWER_BYTES_MAX = 2 * TOKEN_CHARACTERS_MAX
LIFETIME_SHARE = 0.8
"""A token is used for this share of its lifetime, as Kafka's clients do."""
_EXTENSION = "extension_"
_TOKEN = re.compile(r"[-_.a-zA-Z0-9]+")
_WORD = re.compile(r"[a-z_]{1,60}")


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """A login whose token is read from a file, or asked for at an identity provider, by the grant
    of client credentials; it can be pickled, and `repr` shows no secret.

    Attributes: url: ``file:``, ``https:`` or ``http:``.
    """

    url: str
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    urlencode: bool = False
    extensions: tuple[tuple[str, str], ...] = ()
    tls: TlsClientSettings | None = field(default=None, repr=False)
    read_ms: int = 10_000
    retry_ms: int = 100
    retry_ms_max: int = 10_000

    mechanism = OAUTHBEARER
    by_token = False

    @property
    def user(self) -> str:
        """The user of the token, for messages: its claims are the broker's to read."""
        return self.client_id or "of the token"

    def begin(self) -> ClientMechanism:
        """Return the client's side of one authentication. Blocks; raises as `token` does."""
        return OAuthBearerClient(self.token(), dict(self.extensions))

    def token(self) -> str:
        """Return a token. One that was asked for is used again for most of its lifetime.

        Raises: SaslAuthenticationFailed: it can't be read, or the identity provider gives none.
        """
        if urlsplit(self.url).scheme == "file":
            return self._checked(_read_file(unquote(urlsplit(self.url).path)))
        with _granting:
            token, until_s = _granted.get(self, ("", 0.0))
            if monotonic_s() >= until_s:
                token, lifetime_s = self._ask()
                _granted[self] = token, monotonic_s() + lifetime_s * LIFETIME_SHARE
        return token

    def _ask(self) -> tuple[str, float]:
        wait_ms = self.retry_ms
        end_s = monotonic_s() + self.retry_ms_max / 1000
        while True:
            try:
                return self._granted_by(self._asked_once())
            except HTTPError as error:
                with error:
                    reason = _refusal(error)
                if error.code < 500:
                    raise self._failed(reason) from None
            except SettingError as error:
                raise self._failed(str(error)) from None
            except (OSError, ValueError) as error:
                reason = str(getattr(error, "reason", None) or error) or type(error).__name__
            if monotonic_s() + wait_ms / 1000 > end_s:
                raise self._failed(reason)
            time.sleep(wait_ms / 1000)
            wait_ms *= 2

    def _asked_once(self) -> bytes:
        name, secret = self.client_id or "", self.client_secret or ""
        if self.urlencode:
            name, secret = quote_plus(name), quote_plus(secret)
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        headers = {
            "Authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode(),
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        request = Request(self.url, urlencode(form).encode(), headers, method="POST")
        return read_url(request, HttpOptions(ANSWER_BYTES_MAX, self.read_ms / 1000, self.tls))

    def _granted_by(self, answer: bytes) -> tuple[str, float]:
        """Return the token of an answer and its lifetime in seconds; 0: it does not say so."""
        try:
            fields = json.loads(answer)
            token = fields.get("access_token") or fields.get("id_token")
            lifetime_s = fields.get("expires_in")
        except (ValueError, AttributeError, RecursionError):
            raise self._failed("expected a JSON object with an access_token") from None
        is_number = isinstance(lifetime_s, (int, float)) and not isinstance(lifetime_s, bool)
        return self._checked(token), min(max(lifetime_s, 0), 86_400) if is_number else 0

    def _checked(self, token: object) -> str:
        if not isinstance(token, str) or len(token) > TOKEN_CHARACTERS_MAX or not _TOKEN.fullmatch(token):
            raise self._failed("expected a JSON Web Token")
        return token

    def _failed(self, reason: str) -> SaslAuthenticationFailed:
        parts = urlsplit(self.url)
        place = f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
        return SaslAuthenticationFailed(f"no token from {TOKEN_URL}={place}: {reason}")


_granting = threading.Lock()
_granted: dict[TokenLogin, tuple[str, float]] = {}


def token_login(values: Mapping[str, str | None], module: LoginModule | None, setting: str) -> TokenLogin:
    """Return the login that properties say, and after them the options of a login module: clientId,
    clientSecret, scope, extension_NAME, and ``ssl.`` ones for the identity provider.

    Args: values: all of `TOKEN_PROPERTIES`. module: None: none is set. setting: the module's.
    Raises: SettingError, which shows no secret.
    """
    if module is not None and module.name != OAUTHBEARER_MODULE:
        raise SettingError(f"{setting}: expected the login module {OAUTHBEARER_MODULE} of {OAUTHBEARER}")
    options = module.options if module is not None else {}
    for name, classes in _CLASSES.items():
        if values[name] is not None and values[name] not in [_PACKAGE + one for one in classes]:
            raise SettingError(f"{name}={values[name]}: expected {' or '.join(_PACKAGE + one for one in classes)}")
    url = (values[TOKEN_URL] or "").strip()
    scheme = urlsplit(url).scheme
    if scheme not in ("file", "https", "http"):
        raise SettingError(f"{OAUTHBEARER} needs {TOKEN_URL}: a URL of https, http, or file, which has a token")
    client_id, secret = (
        values[CLIENT_ID] or options.get("clientId"),
        values[CLIENT_SECRET] or options.get("clientSecret"),
    )
    if scheme != "file" and not (client_id and secret):
        raise SettingError(
            f"{TOKEN_URL} of {scheme} needs {CLIENT_ID} and {CLIENT_SECRET}, or clientId and clientSecret in {setting}"
        )
    return TokenLogin(
        url,
        client_id,
        secret,
        values[SCOPE] or options.get("scope"),
        _number(values, URLENCODE, {"true": 1, "false": 0}.__getitem__) == 1,
        tuple((name.removeprefix(_EXTENSION), text) for name, text in options.items() if name.startswith(_EXTENSION)),
        tls_options(options, setting) if scheme == "https" else None,
        _number(values, READ_MS),
        _number(values, RETRY_MS),
        _number(values, RETRY_MS_MAX),
    )


def _number(values: Mapping[str, str | None], name: str, convert: Callable[[str], int] = int) -> int:
    text = (values[name] or "").strip().lower()
    try:
        number = convert(text)
    except (ValueError, KeyError):
        number = -1
    if number < 0 or (name in (READ_MS, RETRY_MS) and not number):
        raise SettingError(f"{name}={text}: expected {'true or false' if name == URLENCODE else 'milliseconds'}")
    return number


def _read_file(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as file:
            return file.read(ANSWER_BYTES_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise SaslAuthenticationFailed(f"no token from {TOKEN_URL}=file:{path}: {reason}") from None


def _refusal(error: HTTPError) -> str:
    """Return the status, and the provider's word for the reason. Other text of it is not shown."""
    try:
        word = json.loads(read_bounded(error, ANSWER_BYTES_MAX, monotonic_s() + 5)).get("error")
    except (OSError, ValueError, AttributeError, RecursionError):
        word = None
    known = f" ({word})" if isinstance(word, str) and _WORD.fullmatch(word) else ""
    return f"status {error.code} {error.reason}{known}"
