"""The certificates of an embedded broker or cluster with ``tls=True``: an authority of its own, in
a temporary folder that is removed with it.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from kqueue.security.certificates import DAYS, LOOPBACK_NAMES, Authority, write_private

AUTHORITY = "ca.pem"
BROKER_NAME = "kqueue-broker"
"""Whom the certificates of brokers are for."""


class DevelopmentCertificates:
    """An authority, and certificates of brokers and users as they are asked for.

    `folder`: readable by this user alone; it is removed when this object is collected.
    """

    def __init__(self, hosts: Sequence[str] = LOOPBACK_NAMES) -> None:
        """Raises SettingError: the package cryptography is not installed."""
        self._authority = Authority.create()
        self._hosts = hosts
        self.folder = Path(tempfile.mkdtemp(prefix="kqueue-tls-"))
        self._remove = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        write_private(self.folder / AUTHORITY, self._authority.certificate)

    @property
    def settings(self) -> Mapping[str, object]:
        """The settings of a broker with these certificates; of a cluster each has a `broker_file`
        of its own. Clients need none, and those that have one are its user.
        """
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.broker_file(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority_file,
            "ssl.client.auth": "requested",
        }

    @property
    def authority_file(self) -> str:
        """The file with the certificate of the authority, which clients trust."""
        return str(self.folder / AUTHORITY)

    def broker_file(self, broker: int = 0) -> str:
        """Return the file with a broker's key and certificate, which is made if it is missing."""
        path = self.folder / f"broker-{broker}.pem"
        if not path.exists():
            self.renew_broker(broker=broker)
        return str(path)

    def renew_broker(self, days: float = DAYS, broker: int = 0) -> None:
        """Replace a broker's certificate; negative `days`: by one that has expired."""
        pair = self._authority.issue(f"CN={BROKER_NAME}", hosts=self._hosts, days=days)
        write_private(self.folder / f"broker-{broker}.pem", pair.pem)

    def user_file(self, user: str) -> str:
        """Return the file with a user's key and certificate: ``ann``, or ``CN=ann,O=example``."""
        path = self.folder / f"user-{user.encode().hex()[:100]}.pem"
        if not path.exists():
            write_private(path, self._authority.issue(user).pem)
        return str(path)
