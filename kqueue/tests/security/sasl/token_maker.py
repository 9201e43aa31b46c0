"""An identity provider for tests: keys, and tokens that they signed."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey


@cache
def rsa_key(kid: str = "one") -> RSAKey:
    return RSAKey.generate_key(2048, parameters={"kid": kid, "use": "sig"})


@cache
def ec_key(kid: str = "two") -> ECKey:
    return ECKey.generate_key("P-256", parameters={"kid": kid})


@cache
def symmetric_key() -> OctKey:
    return OctKey.generate_key(256, parameters={"kid": "three"})


def jwks(*keys: Any) -> str:
    """Return the JSON Web Key Set of these keys' public halves; of both keys if none is given."""
    return json.dumps(KeySet(list(keys) or [rsa_key(), ec_key()]).as_dict(private=False))


def signed(claims: dict[str, Any], key: Any = None, algorithm: str = "RS256", **header: Any) -> str:
    key = key or rsa_key()
    return jwt.encode({"alg": algorithm, "kid": key.kid, **header}, claims, key, algorithms=[algorithm])


def unsecured(claims: dict[str, Any], algorithm: str = "none", signature: str = "") -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in (
        {"alg": algorithm}, claims))  # fmt: skip
    return ".".join((*parts, signature))
