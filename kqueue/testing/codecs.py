"""The public checker of compression codecs: whoever writes one runs it in his tests."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from kqueue.base.errors import CorruptBatch
from kqueue.records.codecs.contract import Buffer, Codec, Levels

_BOMB_BYTES = 8 * 1024 * 1024
_BOMB_LIMIT = 64 * 1024
_SLACK_BYTES = 2 * 1024 * 1024  # what a library may take for itself


def check_codec(codec: Codec, *, seed: int = 1) -> None:
    """Check that `codec` keeps the contract in `kqueue.records.codecs.contract`; takes well under a second for a fast one.

    Round trips at every end of its levels and over all kinds of buffers, the limit to the byte, a bomb, data that is
    cut off, damaged or noise, several threads at once. `seed` gives the noise.
    Raises AssertionError: says which promise was broken, and with what.
    """
    rng = random.Random(seed)
    _check_names(codec)
    for data in _samples(rng):
        for level in _levels(codec.levels):
            _check_round_trip(codec, data, level)
        _check_limit(codec, data)
    _check_bomb(codec)
    packed = codec.compress(b"key-1 value one key-2 value two " * 40 + rng.randbytes(100))
    _check_cuts(codec, packed)
    _check_flips(codec, packed)
    _check_noise(codec, rng)
    _check_threads(codec)


def _check_names(codec: Codec) -> None:
    assert isinstance(codec.id, int), f"id must be a number from 0 to 7, found {codec.id!r}"
    assert 0 <= codec.id <= 7, f"id must be from 0 to 7, for it has three bits in a batch: {codec.id}"
    assert codec.name, "a name must not be empty"
    assert codec.name == codec.name.strip().lower(), f"a name is written in small letters: {codec.name!r}"
    if codec.levels is not None:
        assert codec.levels.lowest <= codec.levels.highest, f"{codec.name}: levels {codec.levels} have no order"


def _levels(levels: Levels | None) -> list[int | None]:
    if levels is None:
        return [None, 1]  # it has to ignore one
    return [None, levels.lowest, levels.default, levels.highest]


def _samples(rng: random.Random) -> Iterator[bytes]:
    yield b""
    yield b"\0"
    yield b"a record that says the same, " * 500
    yield rng.randbytes(70_000)
    yield bytes(200_000)


def _check_round_trip(codec: Codec, data: bytes, level: int | None) -> None:
    about = f"{codec.name}, level {level}, {len(data)} bytes"
    packed = codec.compress(data, level)
    assert type(packed) is bytes, f"{about}: compress must return bytes, found {type(packed).__name__}"
    assert codec.compress(memoryview(bytearray(data)), level) == packed, f"{about}: a memoryview compresses to something else"
    for buffer in (packed, bytearray(packed), memoryview(packed)):
        unpacked = _own(codec, buffer, len(data), about)
        assert type(unpacked) is bytes, f"{about}: decompress must return bytes, found {type(unpacked).__name__}"
        assert unpacked == data, f"{about}: a round trip changed the data (given as {type(buffer).__name__})"


def _own(codec: Codec, packed: Buffer, limit: int, about: str) -> bytes:
    """What the codec makes of its own work, which it may not refuse."""
    try:
        return codec.decompress(packed, limit)
    except CorruptBatch as error:
        raise AssertionError(f"{about}: decompress refused under a limit of {limit} what compress had made: {error}") from error


def _check_limit(codec: Codec, data: bytes) -> None:
    packed = codec.compress(data)
    assert _own(codec, packed, len(data) + 1, f"{codec.name}, {len(data)} bytes") == data, (
        f"{codec.name}: a limit above the size changed the data"
    )
    for limit in {len(data) - 1, len(data) // 2, 0} - {-1, len(data)}:
        try:
            found = codec.decompress(packed, limit)
        except CorruptBatch:
            continue
        raise AssertionError(f"{codec.name}: {len(found)} bytes came out under a limit of {limit}, expected CorruptBatch")


def _check_bomb(codec: Codec) -> None:
    bomb = codec.compress(bytes(_BOMB_BYTES))
    _own(codec, codec.compress(b""), 0, codec.name)  # libraries are loaded, and not counted
    tracemalloc.start()
    try:
        codec.decompress(bomb, _BOMB_LIMIT)
    except CorruptBatch:
        peak = tracemalloc.get_traced_memory()[1]
    else:
        raise AssertionError(f"{codec.name}: {_BOMB_BYTES} bytes passed a limit of {_BOMB_LIMIT}")
    finally:
        tracemalloc.stop()
    allowed = _BOMB_LIMIT + _SLACK_BYTES
    assert peak <= allowed, f"{codec.name}: a bomb under a limit of {_BOMB_LIMIT} took {peak} bytes, more than {allowed}"


def _try(codec: Codec, data: bytes, about: str, limit: int = 1 << 20) -> bytes | None:
    """What came out, None where it was refused as it has to be."""
    try:
        found = codec.decompress(data, limit)
    except CorruptBatch:
        return None
    except Exception as error:
        raise AssertionError(f"{codec.name}: {about} raised {error!r}, expected CorruptBatch or nothing") from error
    assert len(found) <= limit, f"{codec.name}: {about} came to {len(found)} bytes under a limit of {limit}"
    return found


def _check_cuts(codec: Codec, packed: bytes) -> None:
    whole = _own(codec, packed, 1 << 20, codec.name)
    for end in range(len(packed)):
        found = _try(codec, packed[:end], f"data cut off at byte {end} of {len(packed)}")
        assert found != whole, f"{codec.name}: data cut off at byte {end} of {len(packed)} came out whole"


def _check_flips(codec: Codec, packed: bytes) -> None:
    for bit in range(len(packed) * 8):
        changed = bytearray(packed)
        changed[bit // 8] ^= 1 << bit % 8
        _try(codec, bytes(changed), f"data with bit {bit} turned")


def _check_noise(codec: Codec, rng: random.Random) -> None:
    start = codec.compress(b"some start")[:12]
    for _ in range(200):
        noise = rng.randbytes(rng.randrange(200))
        _try(codec, noise, f"noise {noise.hex()}")
        _try(codec, start + noise, f"a good start and noise {noise.hex()}")


def _check_threads(codec: Codec) -> None:
    samples = [bytes([number]) * 50_000 for number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        packed = list(pool.map(codec.compress, samples))
        unpacked = list(pool.map(lambda data: codec.decompress(data, 50_000), packed))
    assert unpacked == samples, f"{codec.name}: threads at once mixed up their data"
