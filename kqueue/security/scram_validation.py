"""The checks of a SCRAM credential before it is stored. Source: Kafka's ScramControlManager; the
bounds on names and salts are kqueue's own.
"""

from __future__ import annotations

from kqueue.security.errors import UnacceptableCredential, UnsupportedSaslMechanism
from kqueue.security.scram_credentials import ITERATIONS_MAX, ITERATIONS_MIN, SCRAM_MECHANISMS, ScramMechanism

SALT_BYTES_MAX = 256
USER_NAME_LENGTH_MAX = 255
"""Characters of a user's name."""
_BY_NUMBER = {mechanism.number: mechanism for mechanism in SCRAM_MECHANISMS.values()}


def mechanism_of_number(number: int) -> ScramMechanism:
    """Return the mechanism of Kafka's number. Raises UnsupportedSaslMechanism: there is none."""
    mechanism = _BY_NUMBER.get(number)
    if mechanism is None:
        raise UnsupportedSaslMechanism("Unknown SCRAM mechanism")
    return mechanism


def check_user_name(name: str) -> None:
    """Raise UnacceptableCredential for a name that is empty or too long, or has control characters
    or lone surrogates.
    """
    if not name:
        raise UnacceptableCredential("Username must not be empty")
    if len(name) > USER_NAME_LENGTH_MAX:
        raise UnacceptableCredential(f"Username must not have more than {USER_NAME_LENGTH_MAX} characters")
    if any(character < " " or "\x7f" <= character < "\xa0" or "\ud800" <= character < "\ue000" for character in name):
        raise UnacceptableCredential("Username must not have control characters")


def check_iterations(iterations: int) -> None:
    """Raise UnacceptableCredential for a number of iterations that Kafka refuses."""
    if iterations < ITERATIONS_MIN:
        raise UnacceptableCredential(f"Too few iterations: {iterations}, at least {ITERATIONS_MIN} are needed")
    if iterations > ITERATIONS_MAX:
        raise UnacceptableCredential(f"Too many iterations: {iterations}, at most {ITERATIONS_MAX} are allowed")


def check_salt(salt: bytes) -> None:
    """Raise UnacceptableCredential for a salt that is empty or too long."""
    if not 0 < len(salt) <= SALT_BYTES_MAX:
        raise UnacceptableCredential(f"The salt has {len(salt)} bytes, from 1 to {SALT_BYTES_MAX} are allowed")


def check_salted_password(mechanism: ScramMechanism, salted: bytes) -> None:
    """Raise UnacceptableCredential for what no client can have computed from a password."""
    if len(salted) != mechanism.key_bytes:
        raise UnacceptableCredential(
            f"The salted password has {len(salted)} bytes, those of {mechanism.name} have {mechanism.key_bytes}"
        )
