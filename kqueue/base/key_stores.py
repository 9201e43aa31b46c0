"""Certificates and private keys from PEM text and PKCS12 files.

Keys never reach a disk: OpenSSL, which loads files only, gets one in memory where the system has
them.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kqueue.base.errors import SettingError
from kqueue.base.extras import install_hint

FILE_BYTES_MAX = 16 * 1024 * 1024
_BLOCK = re.compile(r"-----BEGIN (?P<kind>[A-Z0-9 ]+)-----(?P<body>.*?)-----END (?P=kind)-----", re.DOTALL)
_JKS_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")


class KeyPair(NamedTuple):
    """A certificate with those of the authorities between, and its private key, as PEM.

    Attributes:
        password: of the key; None: it is not encrypted.
    """

    chain: str
    key: str
    password: str | None = None


class StoreSettings(NamedTuple):
    """The location of a key store or trust store, from settings. None: unset.

    Attributes:
        setting: their common prefix, for messages: ``ssl.keystore``.
        certificates, key: PEM text.
        key_password: of the private key.
        content: of the file, for processes on machines that don't have it.
    """

    setting: str
    type: str
    location: str | None = None
    password: str | None = None
    certificates: str | None = None
    key: str | None = None
    key_password: str | None = None
    content: bytes | None = None

    def __repr__(self) -> str:
        """Show no password and no key."""
        return f"StoreSettings({self.setting!r}, {self.type!r}, {self.location!r})"

    @property
    def is_empty(self) -> bool:
        """Whether neither a file nor text is set."""
        return not (self.location or self.certificates or self.key)

    def with_content(self) -> StoreSettings:
        """Return the settings with what the file has now, if there is one that can be read."""
        try:
            return self._replace(content=_read(self)) if self.location else self
        except SettingError:
            return self


class ChainLoader(Protocol):
    """The method of `ssl.SSLContext` that `load_key_pair` calls."""

    def load_cert_chain(
        self, certfile: str, keyfile: str | None = None, password: Callable[[], str] | None = None
    ) -> None:
        """See `ssl.SSLContext.load_cert_chain`."""
        ...


def read_key_store(store: StoreSettings) -> KeyPair:
    """Return the key and certificates of a key store. Raises SettingError."""
    if _is_pem(store):
        text = _pem_text(store, (store.key or "") + "\n" + (store.certificates or ""))
        chain = _blocks(text, lambda kind: kind == "CERTIFICATE")
        keys = _blocks(text, lambda kind: kind.endswith("PRIVATE KEY"))
        if not chain or len(keys) != 1:
            raise SettingError(
                f"{_where(store)}: expected one private key and its certificate as PEM, "
                f"found {len(keys)} keys and {len(chain)} certificates"
            )
        return KeyPair("".join(chain), keys[0], store.key_password)
    key, certificate, more = _pkcs12(store)
    if key is None or certificate is None:
        raise SettingError(f"{_where(store)}: expected a private key with its certificate, found none")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    chain = [one.public_bytes(Encoding.PEM).decode() for one in (certificate, *more)]
    return KeyPair("".join(chain), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())


def read_trust_store(store: StoreSettings) -> str:
    """Return the certificates of a trust store as PEM text. Raises SettingError."""
    if _is_pem(store):
        blocks = _blocks(_pem_text(store, store.certificates or ""), lambda kind: kind == "CERTIFICATE")
    else:
        from cryptography.hazmat.primitives.serialization import Encoding

        _, certificate, more = _pkcs12(store)
        blocks = [one.public_bytes(Encoding.PEM).decode() for one in (certificate, *more) if one is not None]
    if not blocks:
        raise SettingError(f"{_where(store)}: expected certificates of authorities, found none")
    return "".join(blocks)


def load_key_pair(context: ChainLoader, pair: KeyPair) -> None:
    """Have a TLS context use this pair. Raises OSError (ssl.SSLError among them)."""
    with _as_file(pair.chain) as chain, _as_file(pair.key) as key:
        # without a function OpenSSL would ask the terminal for the password
        context.load_cert_chain(chain, key, lambda: pair.password or "")


def first_certificate(pem: str) -> str:
    """Return the first certificate of PEM text, as PEM text."""
    return _blocks(pem, lambda kind: kind == "CERTIFICATE")[0]


def _is_pem(store: StoreSettings) -> bool:
    kind = store.type.upper()
    if kind not in ("PEM", "PKCS12", "JKS"):
        raise SettingError(f"{store.setting}.type={store.type}: expected PEM or PKCS12")
    text = store.key or store.certificates
    if text and kind != "PEM":
        raise SettingError(f"{store.setting}.type={store.type}: text in the settings needs {store.setting}.type=PEM")
    if text and store.location:
        raise SettingError(f"{store.setting}.location and text in the settings are both set: expected one of them")
    if kind == "PEM" and store.password is not None:
        raise SettingError(
            f"{store.setting}.password is for PKCS12: of an encrypted key in PEM ssl.key.password is the password"
        )
    return kind == "PEM"


def _where(store: StoreSettings) -> str:
    return f"{store.setting}.location={store.location}" if store.location else f"{store.setting} in the settings"


def _read(store: StoreSettings) -> bytes:
    if not store.location:
        raise SettingError(f"{store.setting}.location is not set: expected the file of the {store.setting[4:]}")
    try:
        with Path(store.location).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        if store.content is not None:
            return store.content
        raise SettingError(f"{_where(store)} can't be read: {error.strerror or error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise SettingError(f"{_where(store)} has more than {FILE_BYTES_MAX} bytes")
    return data


def _pem_text(store: StoreSettings, inline: str) -> str:
    if not store.location:
        return inline
    try:
        return _read(store).decode()
    except UnicodeDecodeError:
        raise SettingError(f"{_where(store)} is no PEM text: PKCS12 needs {store.setting}.type=PKCS12") from None


def _blocks(text: str, wanted: Callable[[str], bool]) -> list[str]:
    return [_rewrapped(match) for match in _BLOCK.finditer(text) if wanted(match["kind"])]


def _rewrapped(match: re.Match[str]) -> str:
    """Return a block with lines as OpenSSL needs them: in settings all may be one line."""
    kind, body = match["kind"], match["body"]
    if ":" not in body:  # headers of an encrypted key of the older form stay as they are
        joined = "".join(body.split())
        body = "\n" + "".join(joined[start : start + 64] + "\n" for start in range(0, len(joined), 64))
    return f"-----BEGIN {kind}-----{body}-----END {kind}-----\n"


def _pkcs12(store: StoreSettings) -> tuple[Any, Any, list[Any]]:
    """Return private key, its certificate, and the other certificates."""
    data = _read(store)
    kind = store.setting[4:]
    if data.startswith(_JKS_MAGIC):
        raise SettingError(
            f"{_where(store)} has the format JKS, which only Java reads; convert it: keytool -importkeystore "
            f"-srckeystore {store.location} -destkeystore {kind}.p12 -deststoretype PKCS12, "
            f"and set {store.setting}.type=PKCS12"
        )
    if data.lstrip().startswith(b"-----BEGIN"):
        raise SettingError(f"{_where(store)} is PEM text: set {store.setting}.type=PEM")
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise SettingError(
            f"{store.setting}.type={store.type} needs the package cryptography: {install_hint('security')}"
        ) from None
    password = None if store.password is None else store.password.encode()
    try:
        parsed = pkcs12.load_pkcs12(data, password)
    except (ValueError, TypeError) as error:
        raise SettingError(f"{_where(store)} can't be opened as PKCS12: {error}") from None
    return (
        parsed.key,
        parsed.cert and parsed.cert.certificate,
        [one.certificate for one in parsed.additional_certs],
    )


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Yield the path of a file with this text; it is in memory where the system has such files."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        descriptor = os.memfd_create("kqueue")
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory() as folder:  # readable by this user alone
        path = Path(folder, "pem")
        path.write_text(text)
        path.chmod(0o600)
        yield str(path)
