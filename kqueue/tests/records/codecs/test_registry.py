from __future__ import annotations

import subprocess
import sys

import pytest

from kqueue.base.errors import PluginError
from kqueue.records.codecs import CODECS
from kqueue.testing import check_codec
from kqueue.tests.tables import for_each

KAFKAS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@for_each("name", KAFKAS)
def test_built_in_codecs_keep_the_contract(name: str) -> None:
    check_codec(CODECS.get(name))


def test_names_and_numbers_are_kafkas() -> None:
    built_in = {entry.name: entry.id for entry in CODECS if entry.origin == "kqueue"}
    assert built_in == KAFKAS
    for name, number in KAFKAS.items():
        assert (CODECS.get(name).name, CODECS.get(name).id) == (name, number)
        assert CODECS.by_id(number) is CODECS.get(name)


def test_a_codec_with_a_number_that_is_taken_is_refused() -> None:
    with pytest.raises(PluginError, match="gzip"):
        CODECS.add("mine", CODECS.get("none"), id=1)


def test_libraries_are_loaded_on_first_need() -> None:
    code = (
        "import sys, kqueue.records.batch; "
        "print([name for name in ('lz4', 'snappy', 'zstandard') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
