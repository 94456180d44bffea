"""The guard in front of the API: only programs of this machine get in, with requests of a sensible
size.

A page in a browser can send requests to loopback, and with a name that points at 127.0.0.1 (DNS
rebinding) even read the answers: so a request must name this emulator, and come from no other site.
"""

import gzip
import io
import re
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import IO, Any

from shoal_local.control.http.protocol import BLOCK, error_answer, protocol_of, signature_of, write
from shoal_local.errors import AwsError

MIB = 1024 * 1024
HOSTS = ("localhost", "127.0.0.1", "[::1]")
# Names below .localhost never leave the machine (RFC 6761, section 6.3); a bucket's name as S3
# allows it.
BUCKET_HOST = re.compile(r"^(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])\.localhost$")
SAME_SITE = ("", "none", "same-origin")
LENGTH = re.compile(r"^[0-9]{1,18}\Z")
MAX_BYTES: Mapping[str, int] = {
    # S3 user guide, "Uploading objects": 5 GB in one PUT; only a PUT carries an object
    "s3": 5 * 1024 * MIB,
    # Lambda's own words: "Request must be smaller than 70167211 bytes for the CreateFunction
    # operation"
    "lambda": 70_167_211,
    # payload of InvokeEndpoint, as repost.aws has it; a pipeline's definition is at most 1 MB
    "sagemaker": 6 * MIB,
}
DEFAULT_MAX_BYTES = 8 * MIB
MAX_IN_MEMORY_BYTES = 8 * MIB
SIGNED_HOST, SIGNED_PATH = "shoal.signed_host", "shoal.signed_path"
"""Keys of the WSGI environment: what the client signed, where the guard rewrites it."""


@dataclass(frozen=True)
class LoopbackGuard:
    """A WSGI application in front of `app`; `port` is the one that the server listens on."""

    app: Any
    port: int

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        try:
            self._check_site(environ)
            self._check_host(environ)
            check_size(environ)
        except AwsError as refusal:
            return write(error_answer(refusal, protocol_of(environ)), start_response)
        response: Iterable[bytes] = self.app(environ, start_response)
        return response

    def _check_host(self, environ: dict[str, Any]) -> None:
        """Raise AwsError for a foreign Host header.

        `BUCKET.localhost` becomes a path, because moto addresses S3 so.
        """
        header = environ.get("HTTP_HOST", "")
        name, _, port = (
            header.rpartition(":") if re.search(r":\d*$", header) else (header, "", "80")
        )
        bucket = BUCKET_HOST.match(name.lower())
        if port != str(self.port) or not (name.lower() in HOSTS or bucket):
            allowed = ", ".join(f"{host}:{self.port}" for host in HOSTS)
            raise AwsError(
                "AccessDenied",
                f"Shoal's emulator answers to {allowed} only, not to the host {header[:200]!r}",
                403,
            )
        if bucket:
            self._address_by_path(environ, bucket["bucket"])

    def _address_by_path(self, environ: dict[str, Any], bucket: str) -> None:
        signature = signature_of(environ)
        if signature is not None and signature.service != "s3":
            raise AwsError(
                "AccessDenied",
                f"Below localhost there are buckets only; {signature.service} is at"
                f" localhost:{self.port}",
                403,
            )
        environ.update(
            {SIGNED_HOST: environ["HTTP_HOST"], SIGNED_PATH: environ.get("RAW_URI", "/")}
        )
        environ["PATH_INFO"] = f"/{bucket}{environ.get('PATH_INFO') or '/'}"
        for raw in ("RAW_URI", "REQUEST_URI"):
            if raw in environ:
                environ[raw] = f"/{bucket}{environ[raw]}"
        environ["HTTP_HOST"] = f"localhost:{self.port}"

    def _check_site(self, environ: Mapping[str, Any]) -> None:
        """Raise AwsError when a browser says that a page of another site asks (Fetch standard:
        Origin; Fetch Metadata: Sec-Fetch-Site).
        """
        origin, site = environ.get("HTTP_ORIGIN"), environ.get("HTTP_SEC_FETCH_SITE", "")
        own_origins = {f"http://{host}:{self.port}" for host in HOSTS}
        is_foreign = origin is not None and origin.lower() not in own_origins
        if is_foreign or site.lower() not in SAME_SITE:
            asking = origin or f"a page of another site (Sec-Fetch-Site: {site[:40]})"
            raise AwsError(
                "AccessDenied",
                "Shoal's emulator answers no requests that web pages of other sites make:"
                f" {asking[:200]}",
                403,
            )


def check_size(environ: dict[str, Any]) -> None:
    """Raise AwsError for a length that is no number or too large.

    A chunked body is spooled first, so that its length is known.
    """
    signature = signature_of(environ)
    service = signature.service if signature else "s3"
    max_bytes = MAX_BYTES.get(service, DEFAULT_MAX_BYTES)
    if service == "s3" and not (signature and environ["REQUEST_METHOD"] == "PUT"):
        max_bytes = DEFAULT_MAX_BYTES
    if environ.get("wsgi.input_terminated"):
        environ["wsgi.input"], length = spool(environ["wsgi.input"], max_bytes, service)
        environ["CONTENT_LENGTH"] = str(length)
        for key in ("wsgi.input_terminated", "HTTP_TRANSFER_ENCODING"):
            environ.pop(key, None)
        return
    header = environ.get("CONTENT_LENGTH") or "0"
    if not LENGTH.match(header):
        raise AwsError(
            "InvalidRequest", f"Content-Length is not a number of bytes: {header[:40]!r}"
        )
    if int(header) > max_bytes:
        raise too_large(service, max_bytes)


def spool(source: IO[bytes], max_bytes: int, service: str) -> tuple[IO[bytes], int]:
    """Return a chunked body as a file, in memory while it is small, and its length.

    Raises AwsError as soon as it is too long or broken off.
    """
    spooled = tempfile.SpooledTemporaryFile(max_size=MAX_IN_MEMORY_BYTES)  # noqa: SIM115 (read by the handler, collected with the request)
    try:
        while block := source.read(BLOCK):
            spooled.write(block)
            if spooled.tell() > max_bytes:
                raise too_large(service, max_bytes)
    except (OSError, ValueError) as error:
        raise AwsError("IncompleteBody", f"The request's chunks cannot be read: {error}") from error
    length = spooled.tell()
    spooled.seek(0)
    return spooled, length


def inflate(environ: dict[str, Any], body: bytes, service: str) -> bytes:
    """Return a buffered body uncompressed; boto3 compresses a large PutMetricData.

    Raises AwsError for one that is damaged, or larger than the service takes.
    """
    if environ.get("HTTP_CONTENT_ENCODING", "").lower() != "gzip":
        return body
    max_bytes = MAX_BYTES.get(service, DEFAULT_MAX_BYTES)
    try:
        inflated = gzip.GzipFile(fileobj=io.BytesIO(body)).read(max_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise AwsError(
            "SerializationException", f"the request is not compressed as it says: {error}"
        ) from error
    if len(inflated) > max_bytes:
        raise too_large(service, max_bytes)
    del environ["HTTP_CONTENT_ENCODING"]
    environ.update({"wsgi.input": io.BytesIO(inflated), "CONTENT_LENGTH": str(len(inflated))})
    return inflated


def too_large(service: str, max_bytes: int) -> AwsError:
    """Return the refusal, in the service's own words where they are documented."""
    if service == "s3":
        reason = f"Your proposed upload exceeds the maximum allowed size of {max_bytes} bytes"
        return AwsError("EntityTooLarge", reason)
    reason = f"Request must be smaller than {max_bytes} bytes for {service}"
    return AwsError("RequestEntityTooLargeException", reason, 413)
