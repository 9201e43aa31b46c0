"""Public contract checks for compression codecs, to be run in the tests of a codec plugin."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from kqueue.base.errors import CorruptBatch
from kqueue.records.codecs.contract import Buffer, Codec, Levels
from kqueue.testing.contract_checks import Check, Checks, ContractTrial
from kqueue.testing.isolation import check_contract

_BOMB_BYTES = 8 * 1024 * 1024
_BOMB_LIMIT = 64 * 1024
_SLACK_BYTES = 2 * 1024 * 1024  # allowance for the library's own memory
_MEBIBYTE = 1 << 20
_CodecTrial = ContractTrial[Codec]


def check_codec(codec: Codec | str, *, seed: int = 1, time_limit_s: float = 60, isolated: bool = True) -> None:
    """Check that a codec meets the contract in `kqueue.records.codecs.contract`.

    Tests round trips at the lowest and highest level with all buffer types, the exact limit, a
    decompression bomb, truncated, damaged and random data, and concurrent threads. The checks run
    in a process of their own, so that a codec that hangs or crashes is reported. A fast codec takes
    less than a second.

    Args:
        codec: the registered object, or its ``module:object`` path.
        seed: seeds the random data.
        time_limit_s: limit for all checks together, in seconds.
        isolated: False runs the checks in this process, without a time limit, for objects that
            cannot be pickled.
    Raises:
        AssertionError: a check failed; the message names the check, the call and the result.
        TypeError: `codec` cannot be sent to another process.
    """
    check_contract(CODEC_CHECKS, codec, {"seed": seed}, time_limit_s=time_limit_s, isolated=isolated)


def _check_names(trial: _CodecTrial) -> None:
    codec = trial.plugin
    assert isinstance(codec.id, int), f"id must be a number from 0 to 7, found {codec.id!r}"
    assert 0 <= codec.id <= 7, f"id must be from 0 to 7, a batch has three bits for it; found {codec.id}"
    assert isinstance(codec.name, str), f"name must be a str, found {codec.name!r}"
    assert codec.name, "name must not be empty"
    assert codec.name == codec.name.strip().lower(), (
        f"name must be lower case without spaces around it, found {codec.name!r}"
    )
    if codec.levels is not None:
        assert isinstance(codec.levels, Levels), f"levels must be None or a kqueue Levels, found {codec.levels!r}"
        assert codec.levels.lowest <= codec.levels.highest, (
            f"levels.lowest must not exceed levels.highest, found {codec.levels}"
        )


def _check_round_trips(trial: _CodecTrial) -> None:
    for data, level in _inputs(trial):
        about = f"{_size(data)} at level {level}"
        packed = _compress(trial, data, level)
        for buffer in (packed, bytearray(packed), memoryview(packed)):
            unpacked = _decompress_own(trial, buffer, len(data), about)
            kind = type(buffer).__name__
            assert unpacked == data, (
                f"{about}: a round trip changed the data (given as {kind}){_difference(data, unpacked)}"
            )


def _check_sameness(trial: _CodecTrial) -> None:
    for data, level in _inputs(trial):
        about = f"{_size(data)} at level {level}"
        packed = _compress(trial, data, level)
        assert _compress(trial, data, level) == packed, f"{about}: compressing the same data twice gave different bytes"
        assert _compress(trial, memoryview(bytearray(data)), level) == packed, (
            f"{about}: compressing a memoryview gave different bytes than bytes"
        )


def _check_limit(trial: _CodecTrial) -> None:
    for data in _samples(trial):
        packed = _compress(trial, data, None)
        assert _decompress_own(trial, packed, len(data) + 1, _size(data)) == data, (
            f"{_size(data)}: a limit above the size changed the data"
        )
        for limit in {len(data) - 1, len(data) // 2, 0} - {-1, len(data)}:
            unpacked = _decompress(trial, packed, limit, f"the compressed form of {_size(data)}")
            assert unpacked is None, (
                f"{len(unpacked or b'')} bytes came out under a limit of {limit}, expected CorruptBatch"
            )


def _check_bomb(trial: _CodecTrial) -> None:
    bomb = _compress(trial, bytes(_BOMB_BYTES), None)
    _decompress_own(trial, _compress(trial, b"", None), 0, "0 bytes")  # loads libraries before memory is measured
    tracemalloc.start()
    try:
        unpacked = _decompress(trial, bomb, _BOMB_LIMIT, f"{_BOMB_BYTES} zeros, compressed")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert unpacked is None, f"{_BOMB_BYTES} bytes passed a limit of {_BOMB_LIMIT}"
    allowed = _BOMB_LIMIT + _SLACK_BYTES
    assert peak <= allowed, f"a bomb under a limit of {_BOMB_LIMIT} allocated {peak} bytes, expected at most {allowed}"


def _check_cuts(trial: _CodecTrial) -> None:
    packed = _packed(trial)
    whole = _decompress_own(trial, packed, _MEBIBYTE, "a small text")
    for end in range(len(packed)):
        about = f"data truncated at byte {end} of {len(packed)}"
        assert _decompress(trial, packed[:end], _MEBIBYTE, about) != whole, f"{about} was decompressed completely"


def _check_flips(trial: _CodecTrial) -> None:
    packed = _packed(trial)
    for bit in range(len(packed) * 8):
        changed = bytearray(packed)
        changed[bit // 8] ^= 1 << bit % 8
        _decompress(trial, bytes(changed), _MEBIBYTE, f"data with bit {bit} flipped")


def _check_noise(trial: _CodecTrial) -> None:
    rng = _rng(trial)
    start = _compress(trial, b"some start", None)[:12]
    for _ in range(200):
        noise = rng.randbytes(rng.randrange(200))
        _decompress(trial, noise, _MEBIBYTE, f"noise {noise.hex()}")
        _decompress(trial, start + noise, _MEBIBYTE, f"a valid start and noise {noise.hex()}")


def _check_threads(trial: _CodecTrial) -> None:
    codec = trial.plugin
    samples = [bytes([number]) * 50_000 for number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        packed = trial.ask("compress in four threads", lambda: list(pool.map(codec.compress, samples)))
        unpacked = trial.ask(
            "decompress in four threads", lambda: list(pool.map(lambda data: codec.decompress(data, 50_000), packed))
        )
    assert unpacked == samples, "concurrent threads got each other's data"


# --- calls of the codec


def _compress(trial: _CodecTrial, data: Buffer, level: int | None) -> bytes:
    what = f"compress({_size(data)}, level={level})"
    packed = trial.ask(what, lambda: trial.plugin.compress(data, level))
    assert type(packed) is bytes, f"{what}: compress must return bytes, found {type(packed).__name__}"
    return packed


def _decompress_own(trial: _CodecTrial, packed: Buffer, limit: int, about: str) -> bytes:
    """Decompress data that the codec compressed itself; CorruptBatch fails the check."""
    try:
        unpacked = trial.ask(
            f"decompress({_size(packed)}, limit={limit})", lambda: trial.plugin.decompress(packed, limit)
        )
    except CorruptBatch as error:
        raise AssertionError(
            f"{about}: decompress rejected the output of compress under a limit of {limit}: {error}"
        ) from error
    assert type(unpacked) is bytes, f"{about}: decompress must return bytes, found {type(unpacked).__name__}"
    return unpacked


def _decompress(trial: _CodecTrial, data: Buffer, limit: int, about: str) -> bytes | None:
    """Return the decompressed data, or None if the codec raised CorruptBatch."""
    try:
        unpacked = trial.ask(f"decompress of {about}, limit={limit}", lambda: trial.plugin.decompress(data, limit))
    except CorruptBatch:
        return None
    except Exception as error:
        raise AssertionError(f"{about} raised {error!r}, expected CorruptBatch or no error") from error
    assert type(unpacked) is bytes, f"{about}: decompress must return bytes, found {type(unpacked).__name__}"
    assert len(unpacked) <= limit, (
        f"{about}: {len(unpacked)} bytes came out under a limit of {limit}, expected CorruptBatch"
    )
    return unpacked


# --- test data


def _inputs(trial: _CodecTrial) -> Iterator[tuple[bytes, int | None]]:
    levels = trial.plugin.levels
    tried = (
        [None, 1] if levels is None else [None, levels.lowest, levels.default, levels.highest]
    )  # a codec without levels must ignore the argument
    for data in _samples(trial):
        yield from ((data, level) for level in tried)


def _samples(trial: _CodecTrial) -> Iterator[bytes]:
    yield b""
    yield b"\0"
    yield b"a record that says the same, " * 500
    yield _rng(trial).randbytes(70_000)
    yield bytes(200_000)


def _packed(trial: _CodecTrial) -> bytes:
    return _compress(trial, b"key-1 value one key-2 value two " * 40 + _rng(trial).randbytes(100), None)


def _rng(trial: _CodecTrial) -> random.Random:
    return random.Random(trial.options["seed"])


def _size(data: Buffer) -> str:
    return f"{len(data)} bytes"


def _difference(expected: bytes, actual: bytes) -> str:
    if len(expected) != len(actual):
        return f": {len(actual)} bytes came back"
    first = next(index for index, (one, other) in enumerate(zip(expected, actual, strict=True)) if one != other)
    return f": byte {first} is {actual[first]}, was {expected[first]}"


CODEC_CHECKS = Checks(
    "codec",
    (
        Check("its name, id and levels are valid", _check_names),
        Check("a round trip returns the same bytes", _check_round_trips),
        Check("compression is deterministic", _check_sameness),
        Check("decompress respects its limit to the byte", _check_limit),
        Check("a decompression bomb allocates no more than the limit", _check_bomb),
        Check("truncated data is not decompressed completely", _check_cuts),
        Check("damaged data is decompressed or raises CorruptBatch", _check_flips),
        Check("random data is decompressed or raises CorruptBatch", _check_noise),
        Check("several threads may use it at the same time", _check_threads),
    ),
)
