"""The page and the metrics of a service, on loopback: http://127.0.0.1:PORT/, /metrics and /status.json."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from dualfl.deploy import telling
from dualfl.deploy.service import Say

HOST = "127.0.0.1"
Look = Callable[[], dict[str, Any]]


def handler(look: Look, host: str) -> type[http.server.BaseHTTPRequestHandler]:
    kinds: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
        "/": ("text/html; charset=utf-8", telling.page),
        "/metrics": ("text/plain; version=0.0.4; charset=utf-8", telling.metrics),
        "/status.json": ("application/json", lambda found: json.dumps(found) + "\n"),
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 10.0

        def do_GET(self) -> None:
            if self.path not in kinds or not self.from_here():
                self.send_error(404 if self.from_here() else 403)
                return
            kind, write = kinds[self.path]
            body = write(look()).encode()
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.send_header("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'")
            self.end_headers()
            self.wfile.write(body)

        def from_here(self) -> bool:
            """Another site's page may send a browser here under a name of its own; it would read what is answered."""
            name = self.headers.get("host", "").rpartition(":")[0]
            return name in (HOST, "localhost") or host != HOST

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


@contextlib.contextmanager
def shown(look: Look, port: int, say: Say, host: str = HOST) -> Iterator[None]:
    """The page is there meanwhile; 0: no page. A port that is taken is said, and no reason to end."""
    if not port:
        yield
        return
    try:
        server = http.server.ThreadingHTTPServer((host, port), handler(look, host))
    except OSError as error:
        say(f"The status page cannot use port {port} ({error.strerror}); give another by --page, or 0 for none.")
        yield
        return
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say(f"Status: http://{host}:{port}/ and, for Prometheus, /metrics.")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
