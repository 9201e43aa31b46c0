"""Security protocols of listeners. Source: Kafka's SecurityProtocol."""

from __future__ import annotations

import enum


class SecurityProtocol(enum.IntEnum):
    """Whether a listener encrypts (TLS), and whether its clients authenticate by SASL. The numbers
    are Kafka's.
    """

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        """Whether clients authenticate by SASL before anything else."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
