from __future__ import annotations

import struct

from kqueue.schema.source_builder import SourceBuilder


def test_lines_are_indented_by_their_blocks_and_run() -> None:
    source = SourceBuilder(limit=3)
    with source.block("def count(values)"):
        source.line("count = 0")
        with source.block("for value in values"), source.block("if value > limit"):
            source.line("count += 1")
        source.line("return count")
    assert source.compile("count", "test")([1, 4, 9]) == 2


def test_an_empty_block_passes() -> None:
    source = SourceBuilder()
    with source.block("def nothing()"):
        pass
    assert source.compile("nothing", "test")() is None


def test_names_are_fresh() -> None:
    source = SourceBuilder()
    assert len({source.fresh("o") for _ in range(100)}) == 100


def test_plain_constants_are_literals_and_all_others_names() -> None:
    source, thing = SourceBuilder(), object()
    assert [source.constant(value) for value in (None, True, -1, "x")] == ["None", "True", "-1", "'x'"]
    name = source.constant(thing)
    assert source.names[name] is thing
    assert source.constant(thing) == name
    assert source.constant(object()) != name


def test_packers_and_unpackers_are_bound_once() -> None:
    source = SourceBuilder()
    name = source.packer("h?i")
    assert name == source.packer("h?i") == "pack_hti"
    assert source.names[name](1, True, 2) == struct.pack(">h?i", 1, True, 2)
    assert source.names[source.unpacker("hi")](b"x\0\1\0\0\0\2", 1) == (1, 2)


def test_tracebacks_name_what_was_compiled() -> None:
    source = SourceBuilder()
    with source.block("def f()"):
        source.line("return 1")
    assert source.compile("f", "Thing v3 reader").__code__.co_filename == "<Thing v3 reader>"
