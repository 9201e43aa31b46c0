"""`kqueue errors`: what each error of the protocol means, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kqueue.base.names import did_you_mean
from kqueue.cli.output import output_option, print_json

if TYPE_CHECKING:
    from kqueue.wire.error_codes import ErrorCode


@click.command()
@click.argument("text", default="")
@output_option
def errors(text: str, as_json: bool) -> None:
    """Show when kqueue answers with an error, and what to do: of its number, or of all whose names
    contain TEXT.

    \b
      kqueue errors
      kqueue errors NOT_LEADER_OR_FOLLOWER
      kqueue errors 19
      kqueue errors fenced -o json

    After a retriable error clients send the request again by themselves. TEXT may be the name that
    a client gives to an error, such as NotLeaderOrFollowerException.
    """
    from kqueue.wire.error_codes import RETRIABLE, ErrorCode
    from kqueue.wire.error_guide import ERROR_ADVICE

    chosen = [code for code in ERROR_ADVICE if _is_meant(code, text)]
    if not chosen:
        names = [code.name for code in ErrorCode]
        if any(_is_meant(code, text) for code in ErrorCode):
            raise click.ClickException(f"kqueue answers no request with the error {text!r}")
        remedy = did_you_mean(text.upper(), names) or "; `kqueue errors` lists all"
        raise click.ClickException(f"there is no error {text!r}{remedy}")
    if as_json:
        print_json(
            [
                {
                    "number": code.value,
                    "name": code.name,
                    "retriable": code in RETRIABLE,
                    "when": ERROR_ADVICE[code].when,
                    "action": ERROR_ADVICE[code].action,
                }
                for code in chosen
            ]
        )
        return
    for code in chosen:
        retriable = ", retriable" if code in RETRIABLE else ""
        when, action = ERROR_ADVICE[code]
        click.echo(f"{code.name} ({code.value}{retriable})\n    When: {when}\n    What to do: {action}")


def _is_meant(code: ErrorCode, text: str) -> bool:
    """Return whether a text is the number of an error, its name, or a part of its name."""
    if text.removeprefix("-").isdecimal():
        return text == str(code.value)
    name = code.name.replace("_", "")
    words = text.replace("_", "").upper()
    exception = words.removesuffix("EXCEPTION").removesuffix("ERROR")
    return words in name or (bool(exception) and exception == name)
