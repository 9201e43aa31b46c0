"""An S3 server on loopback: moto's, with real requests over sockets."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

from kqueue.spark.stores import Location

KEYS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "secret-of-tests", "AWS_REGION": "us-east-1"}
BUCKET = "bucket"


SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Run a server with a bucket; yield the settings that reach it.

    It is a process of its own: deltalake holds the interpreter's lock while it waits for a
    response. It ends with its standard input.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        settings = {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{int(process.stdout.readline())}"}
        bucket = urllib.request.Request(f"{settings['AWS_ENDPOINT_URL']}/{BUCKET}", method="PUT")
        urllib.request.urlopen(bucket, timeout=60).close()
        try:
            yield settings
        finally:
            process.stdin.close()
            process.wait(60)


def s3_place(settings: dict[str, str], prefix: str, **more: Any) -> Location:
    """Return a prefix of the bucket."""
    return Location(f"s3://{BUCKET}/{prefix}", settings, **more)
