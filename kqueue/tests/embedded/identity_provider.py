"""An identity provider over HTTPS, with a certificate of an authority of its own."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from kqueue.security.certificates import Authority
from kqueue.tests.security.sasl.token_maker import jwks, rsa_key, signed

ISSUER, AUDIENCE, SCOPE = "https://idp.example", "kqueue", "stream"
CLIENT_ID, CLIENT_SECRET = "ann", "s/cret"


class IdentityProvider:
    """Serves ``/keys`` and ``/token``, and signs tokens.

    `key`: the present one. `status`: of all answers. `grants`: scopes of the tokens it granted.
    """

    def __init__(self, folder: Path) -> None:
        authority = Authority.create("CN=private CA")
        self.trust_file, pair_file = folder / "idp-ca.pem", folder / "idp.pem"
        self.trust_file.write_text(authority.certificate)
        pair_file.write_text(authority.issue("CN=idp", hosts=["localhost"]).pem)
        self.key = rsa_key()
        self.status = 200
        self.grants: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair_file)
        # the handshake belongs to the thread of the connection
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://localhost:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def token(self, key: Any = None, **changes: Any) -> str:
        """Return a token with `claims`."""
        return signed(self.claims(**changes), key or self.key)

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Return good claims with these changes; one that is None is left out."""
        now_s = int(time.time())
        claims = {"sub": "ann", "iss": ISSUER, "aud": AUDIENCE, "scope": SCOPE, "iat": now_s, "exp": now_s + 600}
        return {name: value for name, value in {**claims, **changes}.items() if value is not None}

    def trust_options(self) -> dict[str, str]:
        """Options of a login module that trusts it."""
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.trust_file)}

    def _handler(provider) -> type[BaseHTTPRequestHandler]:  # `self` is the handler's
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(provider.status, jwks(provider.key))

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                basic = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
                if provider.status != 200:
                    self._answer(provider.status, "{}")
                elif self.headers["Authorization"] != f"Basic {basic}":
                    self._answer(401, json.dumps({"error": "invalid_client", "error_description": "secret"}))
                else:
                    assert form["grant_type"] == ["client_credentials"]
                    provider.grants.append(form.get("scope", [""])[0])
                    self._answer(200, json.dumps({"access_token": provider.token(), "expires_in": 600}))

            def _answer(self, status: int, text: str) -> None:
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *args: object) -> None:
                pass

        return Handler
