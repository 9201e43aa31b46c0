"""Runs a shell script whose `kqueue` commands run in the process of the test, but for servers.

That saves the start of a process for each command. `kqueue serve` is a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, TextIO

from click.testing import CliRunner

from kqueue.cli.app import kqueue
from kqueue.config.environment import ENVIRONMENT_PREFIX
from kqueue.testing.process_environment import process_environment

STAND_IN = """#!{python} -S
import json, os, socket, sys
if sys.argv[1] == "serve":
    os.execv({python!r}, [{python!r}, "-m", "kqueue.cli", *sys.argv[1:]])
call = {{"arguments": sys.argv[1:], "folder": os.getcwd(), "input": sys.stdin.read()}}
call["variables"] = {{name: value for name, value in os.environ.items() if name.startswith({prefix!r})}}
with socket.create_connection(("127.0.0.1", {port})) as connection, connection.makefile("rw") as stream:
    stream.write(json.dumps(call) + "\\n")
    stream.flush()
    answer = json.loads(stream.readline())
sys.stdout.write(answer["stdout"])
sys.stderr.write(answer["stderr"])
sys.exit(answer["status"])
"""
"""The script's `kqueue`: hands a command to the test, and does as it has done."""


def run_script(script: str, folder: Path, printed: TextIO, timeout_s: float) -> int:
    """Run a script with bash in a folder; return its exit status.

    Args:
        printed: gets standard output and standard error; no pipe, because servers inherit it.
        timeout_s: after so many seconds the script is killed.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        stand_in = folder / "bin" / "kqueue"
        stand_in.parent.mkdir()
        stand_in.write_text(STAND_IN.format(python=sys.executable, port=port, prefix=ENVIRONMENT_PREFIX))
        stand_in.chmod(0o755)
        environment = process_environment(PATH=os.pathsep.join((str(stand_in.parent), os.environ["PATH"])))
        process = subprocess.Popen(
            ["bash", "-euxo", "pipefail", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
        )

        def end() -> None:
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            with socket.create_connection(("127.0.0.1", port)):
                pass  # no command: the end

        waiting = threading.Thread(target=end)
        waiting.start()
        try:
            while _answer_one(server):
                pass
        finally:
            process.kill()  # if it has not ended
            waiting.join()
    return process.returncode


def _answer_one(server: socket.socket) -> bool:
    """Run the next command. Returns whether there was one."""
    connection, _ = server.accept()
    with connection, connection.makefile("rw") as stream:
        line = stream.readline()
        if line:
            stream.write(json.dumps(_run(json.loads(line))) + "\n")
    return bool(line)


def _run(call: dict[str, Any]) -> dict[str, Any]:
    others = dict.fromkeys(name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX))
    runner = CliRunner(env={**others, **call["variables"]})
    with contextlib.chdir(call["folder"]):
        result = runner.invoke(kqueue, call["arguments"], input=call["input"])
    stderr = result.stderr
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        stderr += repr(result.exception)
    return {"status": result.exit_code, "stdout": result.stdout, "stderr": stderr}
