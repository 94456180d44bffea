"""A simple index on loopback that asks for user and password, with one package."""

import base64
import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PACKAGE, VERSION = "shoal_probe", "1.2.3"
_WHEEL = f"{PACKAGE}-{VERSION}-py3-none-any.whl"


def _wheel() -> bytes:
    info, buffer = f"{PACKAGE}-{VERSION}.dist-info", io.BytesIO()
    texts = {
        f"{PACKAGE}.py": f"VERSION = {VERSION!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {VERSION}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    texts[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*texts, f"{info}/RECORD"])
    with zipfile.ZipFile(buffer, "w") as wheel:
        for name, text in texts.items():
            wheel.writestr(name, text)
    return buffer.getvalue()


@contextmanager
def private_index(user: str = "", password: str = "") -> Iterator[str]:
    """Serve it while the block runs; yield its address."""
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    project = f"/simple/{PACKAGE.replace('_', '-')}/"
    pages = {project: f'<a href="{_WHEEL}">{_WHEEL}</a>'.encode(), f"{project}{_WHEEL}": _wheel()}

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = not user or self.headers.get("Authorization") == f"Basic {pair}"
            page = pages.get(self.path)
            status = HTTPStatus.OK if page else HTTPStatus.NOT_FOUND
            self.send_response(status if is_known else HTTPStatus.UNAUTHORIZED)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page or b"" if is_known else b"")

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()
