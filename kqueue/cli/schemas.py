"""`kqueue schemas`: the schemas of a registry, by Confluent's REST API."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import click

from kqueue.cli.console_schemas import SECRETS, registry_settings_of
from kqueue.cli.output import columns, output_option, print_json
from kqueue.schema_registry.rest_client import (
    RETRY_S,
    RegistryRefused,
    RegistryRestClient,
    RegistryUnreachable,
    subject_path,
)

F = TypeVar("F", bound=Callable[..., Any])
TYPES = ("AVRO", "JSON", "PROTOBUF")
SUFFIXES: Mapping[str, str] = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
"""The type of a file, if no option names it."""
DEFAULT_URL = "http://127.0.0.1:8081"
ANSWER_BYTES_MAX = 64 * 1024 * 1024
HEAD = ("SUBJECT", "VERSION", "ID", "TYPE")


@click.group()
def schemas() -> None:
    """List, show, register, check and delete schemas of a registry: kqueue's, or one like it.

    \b
      kqueue schemas list
      kqueue schemas register orders-value order.avsc
      kqueue schemas check orders-value order.avsc
      kqueue schemas show orders-value --version 1
      kqueue schemas delete orders-value

    The registry is at http://127.0.0.1:8081, or where --schema-registry or the variable
    KQUEUE_SCHEMA_REGISTRY says.
    """


def registry_options(command: F) -> F:
    """Add the options about the registry to a command, as its argument `registry`: a client."""

    @click.option(
        "--schema-registry",
        "url",
        metavar="URL",
        envvar="KQUEUE_SCHEMA_REGISTRY",
        default=DEFAULT_URL,
        show_default=True,
        help=f"The registry. {', '.join(SECRETS)} are variables with its credentials.",
    )
    @click.option("--schema-registry-ca", "ca", metavar="FILE", help="Whom to trust as the registry, in PEM.")
    @functools.wraps(command)
    def with_registry(*args: Any, url: str, ca: str | None, **given: Any) -> Any:
        registry = RegistryRestClient(registry_settings_of(url, ca), ANSWER_BYTES_MAX, retry_s=RETRY_S)
        with _plain_errors(url):
            return command(*args, registry=registry, **given)

    return with_registry  # type: ignore[return-value]


def schema_options(command: F) -> F:
    """Add what a new schema consists of, as the argument `body`: of a request."""

    @click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
    @click.option(
        "--type", "kind", type=click.Choice(TYPES), help="By default that of the file's name: .avsc, .json, .proto."
    )
    @click.option(
        "--reference",
        "references",
        multiple=True,
        metavar="NAME=SUBJECT:VERSION",
        help="A schema that this one refers to by a name; may be repeated.",
    )
    @functools.wraps(command)
    def with_schema(*args: Any, file: Path, kind: str | None, references: tuple[str, ...], **given: Any) -> Any:
        return command(*args, body=_body(file, kind, references), **given)

    return with_schema  # type: ignore[return-value]


@schemas.command("list")
@click.option("--subject-prefix", metavar="TEXT", help="Only subjects whose names begin so.")
@click.option("--deleted", is_flag=True, help="Deleted subjects too.")
@output_option
@registry_options
def list_schemas(subject_prefix: str | None, deleted: bool, as_json: bool, registry: RegistryRestClient) -> None:
    """List the newest schema of each subject.

    \b
      kqueue schemas list
      kqueue schemas list --subject-prefix orders- -o json
    """
    query: dict[str, object] = {"latestOnly": True, "deleted": deleted}
    if subject_prefix is not None:
        query["subjectPrefix"] = subject_prefix
    listed = [_described(one) for one in _objects(registry.get("/schemas", query))]
    listed.sort(key=lambda one: str(one["subject"]))
    if as_json:
        print_json([{name: value for name, value in one.items() if name != "schema"} for one in listed])
    else:
        click.echo(columns(HEAD, [[one[name] for name in ("subject", "version", "id", "type")] for one in listed]))


@schemas.command()
@click.argument("subject")
@click.option("--version", default="latest", show_default=True, metavar="N|latest", help="Which version.")
@output_option
@registry_options
def show(subject: str, version: str, as_json: bool, registry: RegistryRestClient) -> None:
    """Print the text of a subject's schema.

    \b
      kqueue schemas show orders-value
      kqueue schemas show orders-value --version 1 -o json
    """
    answer = registry.get(f"{subject_path(subject)}/versions/{quote(_version(version), safe='')}")
    (described,) = [_described(one) for one in _objects([answer])]
    if as_json:
        print_json(described)
    else:
        click.echo(described["schema"])


@schemas.command()
@click.argument("subject")
@schema_options
@click.option("--normalize", is_flag=True, help="Register the normal form, which is one for equal schemas.")
@output_option
@registry_options
def register(
    subject: str, body: Mapping[str, Any], normalize: bool, as_json: bool, registry: RegistryRestClient
) -> None:
    """Register the schema of FILE as the newest version of a subject.

    \b
      kqueue schemas register orders-value order.avsc
      kqueue schemas register orders-value order.proto --reference money.proto=money:1 --normalize

    A schema that the subject has already gets no new version. One that is not compatible with the
    earlier ones is refused.
    """
    query = {"normalize": True} if normalize else None
    answer = registry.send("POST", f"{subject_path(subject)}/versions", query, body)
    id = answer.get("id") if isinstance(answer, dict) else None
    if type(id) is not int:
        raise click.ClickException("the registry did not say which id the schema has")
    if as_json:
        print_json({"subject": subject, "id": id})
    else:
        click.echo(f"Registered schema {id} of {subject}.")


@schemas.command()
@click.argument("subject")
@schema_options
@click.option(
    "--version",
    metavar="N|latest",
    help="Compare with this version, whatever the subject's level of compatibility says.",
)
@output_option
@registry_options
def check(
    subject: str, body: Mapping[str, Any], version: str | None, as_json: bool, registry: RegistryRestClient
) -> None:
    """Check whether the schema of FILE is compatible with a subject; status 1 if it is not.

    \b
      kqueue schemas check orders-value order.avsc
      kqueue schemas check orders-value order.avsc --version 3 -o json
    """
    path = f"/compatibility{subject_path(subject)}/versions"
    if version is not None:
        path += f"/{quote(_version(version), safe='')}"
    answer = registry.send("POST", path, {"verbose": True}, body)
    is_compatible = isinstance(answer, dict) and answer.get("is_compatible") is True
    messages = answer.get("messages") if isinstance(answer, dict) else None
    reasons = [str(one) for one in messages] if isinstance(messages, list) else []
    if as_json:
        print_json({"subject": subject, "is_compatible": is_compatible, "messages": reasons})
    elif is_compatible:
        click.echo(f"Compatible with {subject}.")
    else:
        click.echo("\n".join([f"Not compatible with {subject}:", *(f"  {one}" for one in reasons)]))
    if not is_compatible:
        raise click.exceptions.Exit(1)


@schemas.command()
@click.argument("subject")
@click.option("--version", metavar="N|latest", help="Only this version.")
@click.option("--permanent", is_flag=True, help="So that it can't be restored; it has to be deleted already.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@registry_options
def delete(
    subject: str, version: str | None, permanent: bool, yes: bool, as_json: bool, registry: RegistryRestClient
) -> None:
    """Delete a subject, or a version of it. Its records stay readable until it is permanent.

    \b
      kqueue schemas delete orders-value --version 2
      kqueue schemas delete orders-value --yes
      kqueue schemas delete orders-value --permanent --yes
    """
    what = subject if version is None else f"version {_version(version)} of {subject}"
    if not yes:
        click.confirm(f"Delete {what}{' permanently' if permanent else ''}?", abort=True, err=True)
    path = subject_path(subject)
    if version is not None:
        path += f"/versions/{quote(_version(version), safe='')}"
    answer = registry.send("DELETE", path, {"permanent": True} if permanent else None)
    versions = answer if isinstance(answer, list) else [answer]
    if as_json:
        print_json({"subject": subject, "versions": versions})
    else:
        click.echo(f"Deleted {what}.")


@contextlib.contextmanager
def _plain_errors(url: str) -> Iterator[None]:
    """Turn errors of the registry into one sentence."""
    try:
        yield
    except RegistryRefused as error:
        raise click.ClickException(
            f"the schema registry {url} refuses it ({error.code or error.status}): {error}"
        ) from None
    except RegistryUnreachable as error:
        raise click.ClickException(f"the schema registry {url} gives no answer: {error}") from None


def _version(text: str) -> str:
    if text != "latest" and not (text.isdecimal() and text.isascii()):
        raise click.BadParameter(f"{text!r} is no version; write a number or latest", param_hint="--version")
    return text


def _objects(answer: Any) -> list[dict[str, Any]]:
    if not isinstance(answer, list) or not all(isinstance(one, dict) for one in answer):
        raise click.ClickException("the registry answered with something else than schemas")
    return answer


def _described(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a registry says of a version, with our names."""
    return {
        "subject": answer.get("subject"),
        "version": answer.get("version"),
        "id": answer.get("id"),
        "type": answer.get("schemaType") or "AVRO",
        "references": answer.get("references") or [],
        "schema": str(answer.get("schema", "")),
    }


def _body(file: Path, kind: str | None, references: tuple[str, ...]) -> dict[str, Any]:
    """Return the request's body of a schema in a file."""
    kind = kind or SUFFIXES.get(file.suffix.lower())
    if kind is None:
        raise click.UsageError(f"--type is needed: {file.name} ends with none of {', '.join(SUFFIXES)}")
    try:
        body: dict[str, Any] = {"schema": file.read_text(encoding="utf-8"), "schemaType": kind}
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file} can't be read: {error}") from None
    if references:
        body["references"] = [_reference(one) for one in references]
    return body


def _reference(text: str) -> dict[str, object]:
    name, _, rest = text.partition("=")
    subject, _, version = rest.rpartition(":")
    if not name or not subject or not version.isdecimal():
        raise click.BadParameter(f"{text!r} is not NAME=SUBJECT:VERSION", param_hint="--reference")
    return {"name": name, "subject": subject, "version": int(version)}
