"""Media types of requests and answers."""

from __future__ import annotations

from kqueue.schema_registry.errors import NOT_ACCEPTABLE, UNSUPPORTED_MEDIA_TYPE, RegistryError

V1_JSON = "application/vnd.schemaregistry.v1+json"
OFFERED = (V1_JSON, "application/vnd.schemaregistry+json", "application/json")
"""What answers can be, the preferred first. All are the same JSON."""
TAKEN = (*OFFERED, "application/octet-stream")
"""What requests may say that they are. It is read as JSON."""
ACCEPT_CHARACTERS_MAX = 1_000


def check_content_type(header: str | None) -> None:
    """Raise RegistryError unless a body of this type is read. None: it says no type."""
    if header is None:
        return
    given = header.partition(";")[0].strip().lower()
    if given not in TAKEN:
        raise RegistryError(UNSUPPORTED_MEDIA_TYPE, given=given[:100], expected=", ".join(TAKEN))


def chosen_type(accept: str | None) -> str:
    """Return the type of an answer. `accept`: None: any. Raises: RegistryError: none will do."""
    if accept is None or not accept.strip():
        return V1_JSON
    ranges = [_range(one) for one in accept[:ACCEPT_CHARACTERS_MAX].split(",")]
    weights = {offered: _weight(offered, ranges) for offered in OFFERED}
    best = max(OFFERED, key=lambda offered: weights[offered])
    if weights[best] <= 0:
        raise RegistryError(NOT_ACCEPTABLE, offered=", ".join(OFFERED), accepted=accept[:200])
    return best


def _range(text: str) -> tuple[str, float]:
    """Return a media range and its weight. One that is not understood weighs nothing."""
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return name, float(parameter[2:])
            except ValueError:
                return name, 0.0
    return name, 1.0


def _weight(offered: str, ranges: list[tuple[str, float]]) -> float:
    """Return the weight of the most specific range that covers a type."""
    for covering in (offered, "application/*", "*/*"):
        for name, weight in ranges:
            if name == covering:
                return weight
    return 0.0
