"""Credentials of SCRAM users that do not exist, which nobody can tell from those of users who do.

A client learns a user's salt and iterations before it proves anything. So names without a user get
some too: always the same, in the forms that the credentials of real users have, each as often.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kqueue.security.scram_credentials import (
    ITERATIONS_MIN,
    SALT_BITS,
    ScramCredential,
    ScramMechanism,
    number_salt,
)

FORMS_MAX = 16
"""Forms that made-up credentials have, the most common ones."""
_NUMBER_SALT = re.compile(rb"[1-9a-z][0-9a-z]{19,25}")


class CredentialForm(NamedTuple):
    """The part of a credential that a client learns. `salt_bytes` None: the salt is a number in
    text, as Kafka's tools make it.
    """

    iterations: int
    salt_bytes: int | None

    @classmethod
    def of(cls, credential: ScramCredential) -> CredentialForm:
        """Return the form of a credential."""
        salt = credential.salt
        return cls(credential.iterations, None if _NUMBER_SALT.fullmatch(salt) else len(salt))


USUAL_FORM = CredentialForm(ITERATIONS_MIN, None)
"""Of credentials that Kafka's tools and kqueue's make, and of delegation tokens."""


class CredentialForms:
    """The counts of credentials by mechanism and form."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[CredentialForm]] = {}
        self._common: dict[str, dict[CredentialForm, int]] = {}

    def add(self, mechanism: ScramMechanism, credential: ScramCredential, more: int = 1) -> None:
        """Count one more; where `more` is -1 one less, which was counted before."""
        counts = self._counts.setdefault(mechanism.name, Counter())
        form = CredentialForm.of(credential)
        counts[form] += more
        if not counts[form]:
            del counts[form]
        self._common.pop(mechanism.name, None)

    def common(self, mechanism: ScramMechanism) -> dict[CredentialForm, int]:
        """Return the most common forms with their counts, at most `FORMS_MAX`."""
        common = self._common.get(mechanism.name)
        if common is None:
            counts = self._counts.get(mechanism.name, Counter())
            common = self._common[mechanism.name] = dict(counts.most_common(FORMS_MAX))
        return common


class MadeUpCredentials:
    """Credentials of users that do not exist. Nothing proves them.

    One name has the same as long as the forms are the same; if they change, the fewest possible
    names get another one.

    Args:
        secret: returns random bytes; with the same ones credentials are the same, also after a
            restart. None: new ones.
        forms: of the credentials that there are, one set for each place where users are.
    """

    def __init__(self, secret: Callable[[], bytes] | None = None, forms: Iterable[CredentialForms] = ()) -> None:
        made = secrets.token_bytes(32)
        self._secret = secret or (lambda: made)
        self._forms = tuple(forms)

    def __repr__(self) -> str:
        return "<MadeUpCredentials>"

    def besides(self, forms: CredentialForms) -> MadeUpCredentials:
        """Return those where there are credentials of these forms too."""
        return MadeUpCredentials(self._secret, (*self._forms, forms))

    def credential(self, mechanism: ScramMechanism, user: str, *, by_token: bool = False) -> ScramCredential:
        """Return the credential of a user, or delegation token, that does not exist."""
        form = USUAL_FORM if by_token else self._form(mechanism, user)
        salt = self.salt(mechanism, user)
        if form.salt_bytes is not None:
            salt = hashlib.shake_256(self._derived("salt bytes", mechanism, user)).digest(form.salt_bytes)
        # random, not derived: no proof matches, even for whoever knows the secret
        stored, server = (secrets.token_bytes(mechanism.key_bytes) for _ in range(2))
        return ScramCredential(salt, stored, server, form.iterations)

    def salt(self, mechanism: ScramMechanism, user: str) -> bytes:
        """Return the salt of the usual form."""
        return number_salt(int.from_bytes(self._derived("salt", mechanism, user)) >> (256 - SALT_BITS))

    def _form(self, mechanism: ScramMechanism, user: str) -> CredentialForm:
        """Return a form for this name: of weighted rendezvous hashing, so that each form is as
        frequent among names as among users, and stays a name's when others become more or fewer.
        """
        counts: Counter[CredentialForm] = Counter()
        for forms in self._forms:
            counts.update(forms.common(mechanism))
        if len(counts) <= 1:
            return next(iter(counts), USUAL_FORM)

        def score(form: CredentialForm) -> float:
            drawn = int.from_bytes(self._derived(f"form {form!r}", mechanism, user)[:8])
            return -math.log((drawn + 1) / (2**64 + 1)) / counts[form]

        return min(counts, key=score)

    def _derived(self, purpose: str, mechanism: ScramMechanism, user: str) -> bytes:
        return hmac.digest(self._secret(), f"{purpose}\0{mechanism.name}\0{user}".encode(), "sha256")
