"""`kqueue log dump`: print log, index and snapshot files in the format of Kafka's own tool."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from kqueue.base.errors import ExtraNeeded, StorageFailed
from kqueue.base.terminal import one_line
from kqueue.cli.exit_status import INTERRUPTED
from kqueue.cli.signals import stop_on_signal
from kqueue.log_tools.errors import NotALogFolder

if TYPE_CHECKING:
    from kqueue.log_tools.decoders import Decoder
    from kqueue.log_tools.dump import DumpFile, DumpOptions

CHUNK_BYTES = 64 * 1024
MAX_MESSAGE_SIZE = 5242880
MAX_BYTES = 2**31 - 1
UNSUPPORTED = {
    "cluster_metadata_decoder": "the records of Kafka's cluster metadata",
    "remote_log_metadata_decoder": "the records of Kafka's remote log metadata",
    "share_group_state_decoder": "the state of Kafka's share groups",
}


@click.command()
@click.argument("paths", nargs=-1, metavar="[FILE|FOLDER]...")
@click.option(
    "--files", "listed", metavar="FILE,FILE...", help="Files to dump, separated by commas as for Kafka's tool."
)
@click.option("--print-data-log", is_flag=True, help="Show keys and values; so does every decoder.")
@click.option("--deep-iteration", is_flag=True, help="Show each record, not only batches; so does --print-data-log.")
@click.option("--skip-record-metadata", is_flag=True, help="Show nothing of records but keys and values.")
@click.option("--key-decoder-class", "--key-decoder", "key_decoder", metavar="NAME", is_flag=False, flag_value="string",
              help="How to read keys; see --value-decoder.")  # fmt: skip
@click.option(
    "--value-decoder-class",
    "--value-decoder",
    "value_decoder",
    metavar="NAME",
    is_flag=False,
    flag_value="string",
    help="How to read values: string, hex, short, integer, long, float, double, uuid, the name of a class of Kafka's, "
    "or MODULE:FUNCTION of your own, which gets bytes.  [default: string]",
)
@click.option("--offsets-decoder", is_flag=True, help="Read records as those of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="Read records as those of __transaction_state.")
@click.option("--index-sanity-check", is_flag=True, help="Only check whether a broker would accept the indexes.")
@click.option(
    "--verify-index-only", is_flag=True, help="Check the entries of indexes against the log without showing them."
)
@click.option(
    "--max-message-size",
    type=click.IntRange(min=1),
    default=MAX_MESSAGE_SIZE,
    show_default=True,
    metavar="BYTES",
    help="How large a batch an index entry may name.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    default=MAX_BYTES,
    metavar="BYTES",
    help="Read no more than this of each log.",
)
@click.option("--format", "form", type=click.Choice(["kafka", "legacy"]), default="kafka", show_default=True,
              help="The lines of Kafka 4.3, or those of the tool of Kafka 0.8 to 2.x, one per record.")  # fmt: skip
@click.option("--cluster-metadata-decoder", is_flag=True, hidden=True)
@click.option("--remote-log-metadata-decoder", is_flag=True, hidden=True)
@click.option("--share-group-state-decoder", is_flag=True, hidden=True)
def dump(paths: tuple[str, ...], listed: str | None, **options: Any) -> None:
    """Print the contents of the files of a log, as Kafka's kafka-dump-log.sh does.

    \b
      kqueue log dump orders-0/00000000000000000000.log --print-data-log
      kqueue log dump orders-0
      kqueue log dump --files orders-0/00000000000000000000.index --verify-index-only
      kqueue log dump __consumer_offsets-0 --offsets-decoder
      kqueue log dump orders-0/00000000000000000000.log --print-data-log --format legacy

    A FOLDER is that of a partition, or its URL in a tier (s3://bucket/prefix/orders-0); all its
    .log, .index, .timeindex, .txnindex and .snapshot files are dumped. Index entries are checked
    against the log. Nothing is written, no broker is needed, and a broker may use the folder.

    Errors go to standard error, and the exit status is then 1: damaged batches, bytes after the
    last batch, index entries that do not match the log. Gaps between offsets are reported too, but
    are no error: every compacted log has them.
    """
    for name, what in UNSUPPORTED.items():
        if options[name]:
            raise click.UsageError(f"--{name.replace('_', '-')} is not supported: kqueue cannot decode {what}")
    if options["offsets_decoder"] and options["transaction_log_decoder"]:
        raise click.UsageError("choose one of --offsets-decoder and --transaction-log-decoder")
    dump_options = _dump_options(options)
    sources = _sources([*paths, *((listed or "").split(",") if listed else ())])
    if _run(sources, dump_options):
        raise click.exceptions.Exit(1)


def _dump_options(options: dict[str, Any]) -> DumpOptions:
    from kqueue.log_tools.dump import DumpOptions

    decoders = [
        options[name] for name in ("key_decoder", "value_decoder", "offsets_decoder", "transaction_log_decoder")
    ]
    contents = options["print_data_log"] or any(decoders)
    return DumpOptions(
        records=options["deep_iteration"] or contents,
        contents=contents,
        skip_metadata=options["skip_record_metadata"],
        decode=_decoder(*decoders),
        sanity_only=options["index_sanity_check"],
        verify_only=options["verify_index_only"],
        max_message_size=options["max_message_size"],
        max_bytes=options["max_bytes"],
        form="legacy" if options["form"] == "legacy" else "kafka",
    )


def _decoder(key: str | None, value: str | None, offsets: bool, transactions: bool) -> Decoder:
    from kqueue.log_tools.decoders import record_decoder, text_decoder
    from kqueue.log_tools.decoders import value_decoder as find

    if offsets or transactions:
        from kqueue.log_tools.decoders.coordinator import offsets_decoder, transaction_log_decoder

        return offsets_decoder if offsets else transaction_log_decoder
    if not key and not value:
        return text_decoder
    try:
        return record_decoder(find(key or "string"), find(value or "string"))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _sources(names: list[str]) -> list[DumpFile]:
    """Return the files to dump.

    Raises: ClickException: one is missing; UsageError: none is named.
    """
    from pathlib import Path

    from kqueue.log_tools.dump import DumpFile, dump_files_in
    from kqueue.log_tools.tier_urls import is_url

    files: list[DumpFile] = []
    for name in filter(None, (name.strip() for name in names)):
        path = Path(name)
        if is_url(name) or path.is_dir():
            try:
                inside = dump_files_in(name)
            except (StorageFailed, NotALogFolder, ExtraNeeded) as error:
                raise click.ClickException(str(error)) from None
            if not inside:
                raise click.ClickException(
                    f"{name} holds no log, index or snapshot files; name a partition's folder, such as orders-0"
                )
            files += inside
        elif path.exists():
            files.append(DumpFile(name))
        else:
            raise click.ClickException(f"there is no file or folder {name}")
    if not files:
        raise click.UsageError("name a file or a folder: kqueue log dump orders-0")
    return files


class _Interrupted(Exception):
    """Ctrl-C or TERM between two lines."""


class _Printer:
    """Writes lines to standard output in chunks, and messages to standard error in between."""

    def __init__(self) -> None:
        self.stopped = False
        self._out = sys.stdout.buffer
        self._is_terminal = sys.stdout.isatty()
        self._lines: list[str] = []
        self._size = 0

    def stop(self) -> None:
        """Stop after the line that is being printed."""
        self.stopped = True

    def print(self, lines: Iterable[str]) -> None:
        """Write all lines, in constant memory. Raises: _Interrupted: `stop` was called."""
        for line in lines:
            self._lines.append(one_line(line) if self._is_terminal else line)
            self._size += len(line)
            if self._size >= CHUNK_BYTES or self.stopped:
                self.flush()
                if self.stopped:
                    raise _Interrupted

    def complain(self, sentence: str) -> None:
        """Write a message to standard error, after the lines before it."""
        self.flush()
        click.echo(sentence, err=True)

    def flush(self) -> None:
        """Write the buffered lines. Raises: BrokenPipeError."""
        self._out.write("".join([f"{line}\n" for line in self._lines]).encode("utf-8", "replace"))
        self._out.flush()
        self._lines.clear()
        self._size = 0


def _run(sources: list[DumpFile], options: DumpOptions) -> bool:
    """Print everything; return whether anything is damaged.

    Ctrl-C ends after a complete line; a closed pipe ends silently.
    """
    from kqueue.cli.exit_status import discard_output
    from kqueue.log_tools.dump import Problems, dump_file

    printer = _Printer()
    problems = Problems(printer.complain)
    try:
        with stop_on_signal(printer.stop):
            for source in sources:
                printer.print(dump_file(source, options, problems))
            printer.flush()
            for line in problems.summary():
                click.echo(line, err=True)
    except _Interrupted:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        discard_output()
        return False  # the reader closed the pipe
    return problems.wrong
