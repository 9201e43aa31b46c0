"""A registry of schemas over HTTP, with the paths of Confluent's that readers use."""

from __future__ import annotations

import json
import ssl
import threading
from collections import defaultdict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from kqueue.security.certificates import Authority


class RegistryServer:
    """Serves schemas on loopback.

    Attributes:
        authorization: the header that is asked for; None: none.
        statuses: of the next answers, before they are as usual.
        asked: the paths of all requests.
        serialize: makes of a .proto what is asked for by format=serialized; None: that is ignored.
    Args: folder: of the certificates; None: plain HTTP.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.authorization: str | None = None
        self.statuses: list[int] = []
        self.asked: list[str] = []
        self.serialize: Callable[[str], str] | None = None
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = defaultdict(list)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        scheme = "http"
        if folder is not None:
            scheme, authority = "https", Authority.create("CN=registry CA")
            self.trust_file, pair = folder / "registry-ca.pem", folder / "registry.pem"
            self.trust_file.write_text(authority.certificate)
            pair.write_text(authority.issue("CN=registry", hosts=["localhost"]).pem)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pair)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.url = f"{scheme}://localhost:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def __enter__(self) -> RegistryServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def register(self, subject: str, schema: str, kind: str = "AVRO", references: list[Any] | None = None) -> int:
        """Add the next version of a subject; return the schema's id, which are from 1 on."""
        entry = {"schema": schema, "references": references or []}
        self._schemas.append(entry if kind == "AVRO" else entry | {"schemaType": kind})
        self._subjects[subject].append(len(self._schemas))
        return len(self._schemas)

    def _answer(self, path: str) -> tuple[int, dict[str, Any] | list[Any]]:
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        if parts[:2] == ["schemas", "ids"]:
            schema_id = int(parts[2])
            if not 1 <= schema_id <= len(self._schemas):
                return 404, {"error_code": 40403, "message": "Schema not found"}
            return 200, self._schemas[schema_id - 1]
        if parts == ["subjects"]:
            return 200, list(self._subjects)
        if len(parts) == 3 and parts[0] == "subjects" and parts[2] == "versions" and parts[1] in self._subjects:
            return 200, list(range(1, len(self._subjects[parts[1]]) + 1))
        if len(parts) == 3 and parts[0] == "subjects":
            return 404, {"error_code": 40401, "message": "Subject not found"}
        if len(parts) != 4 or parts[0] != "subjects":
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        if parts[1] not in self._subjects:
            return 404, {"error_code": 40401, "message": "Subject not found"}
        ids = self._subjects[parts[1]]
        version = len(ids) if parts[3] == "latest" else int(parts[3])
        if not 1 <= version <= len(ids):
            return 404, {"error_code": 40402, "message": "Version not found"}
        schema_id = ids[version - 1]
        return 200, {"subject": parts[1], "id": schema_id, "version": version, **self._schemas[schema_id - 1]}

    def _handler(registry) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                status, answer = registry._answer(self.path)
                if registry.serialize is not None and self.path.endswith("?format=serialized") and status == 200:
                    answer = answer | {"schema": registry.serialize(answer["schema"])}
                if registry.authorization not in (None, self.headers["Authorization"]):
                    status, answer = 401, {"error_code": 40101, "message": "Unauthorized"}
                if registry.statuses:
                    status = registry.statuses.pop(0)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
