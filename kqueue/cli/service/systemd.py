"""Calls of systemd's own commands."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import click

RUNNING = Path("/run/systemd/system")
TIMEOUT_S = 180


def is_running() -> bool:
    """Return whether systemd runs this machine, as sd_booted(3) does."""
    return RUNNING.is_dir()


def call(*words: str) -> None:
    """Run a command, if it is there, and print it. Raises ClickException: it failed."""
    if shutil.which(words[0]) is None:
        click.echo(f"left out, as there is no {words[0]}: {shlex.join(words)}")
        return
    click.echo(f"run      {shlex.join(words)}")
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise click.ClickException(f"{shlex.join(words)} did not end within {TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise click.ClickException(f"{shlex.join(words)}: {(done.stderr or done.stdout).strip()}")


def answer(*words: str) -> str:
    """Return the word that a command prints, as ``active``; ``unknown`` if it prints none."""
    if shutil.which(words[0]) is None or not is_running():
        return "unknown"
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return done.stdout.strip().partition("\n")[0] or "unknown"
