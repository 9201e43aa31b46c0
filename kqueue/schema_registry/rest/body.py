"""Bodies of requests: read up to a bound, and parsed as JSON."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from kqueue.schema_registry.errors import BAD_REQUEST, BODY_TOO_LARGE, RegistryError

NUMBER_DIGITS_MAX = 1_000


async def read_body(chunks: AsyncIterator[bytes], length: str | None, bytes_max: int) -> bytes:
    """Return a body.

    Args: length: the header Content-Length; None: there is none.
    Raises: RegistryError: it is longer than `bytes_max`; what is over is not read.
    """
    if length is not None and length.isascii() and length.isdecimal() and (len(length) > 15 or int(length) > bytes_max):
        raise RegistryError(BODY_TOO_LARGE, maximum=bytes_max)
    read = bytearray()
    async for chunk in chunks:
        if len(read) + len(chunk) > bytes_max:
            raise RegistryError(BODY_TOO_LARGE, maximum=bytes_max)
        read += chunk
    return bytes(read)


def parse_body(body: bytes) -> object:
    """Return the JSON of a body. Raises: RegistryError."""
    try:
        return json.loads(body, parse_int=_number, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)[:200]
        raise RegistryError(BAD_REQUEST, reason=f"The body is no JSON: {reason}.") from None


def _number(text: str) -> int:
    if len(text) > NUMBER_DIGITS_MAX:
        raise ValueError("a number has too many digits")
    return int(text)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")
