"""Decode uploads to S3 in chunks (`aws-chunked`), which clients send when they sign while they
read.

moto would do it in memory, and allocate as many bytes as a header announces. Format: S3 API
reference, "Transferring Payload in Multiple Chunks": a line `SIZE;chunk-signature=...`, as many
bytes, and so on; a chunk of size 0 and trailers end it. The chunks' signatures are verified, that
of a trailer is not. A checksum in a trailer becomes a header, as which it is checked.
"""

from __future__ import annotations

import hashlib
import io
import re
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from werkzeug.exceptions import ClientDisconnected
from werkzeug.wsgi import LimitedStream

from shoal_local.control.http.loopback_guard import BLOCK, MAX_IN_MEMORY_BYTES
from shoal_local.control.http.signatures import CHUNKS, ChunkSignatures
from shoal_local.errors import AwsError

HASH_HEADER = "HTTP_X_AMZ_CONTENT_SHA256"
LENGTH_HEADER = "HTTP_X_AMZ_DECODED_CONTENT_LENGTH"
TRAILER = re.compile(rb"^(x-amz-checksum-\w+):([\w+/=]+)\r?\n?$")
LINE = re.compile(rb"^([0-9a-fA-F]{1,16})(?:;(?:chunk-signature=([0-9a-f]{64})|[^\r\n]*))?\r\n$")
MAX_LINE_BYTES = 1024


def decode_chunks(environ: dict[str, Any]) -> None:
    """Replace the chunked body of a request by its bytes, in a file when they are many.

    Raises AwsError IncompleteBody, and SignatureDoesNotMatch for a chunk of somebody else's.
    """
    if not environ.get(HASH_HEADER, "").startswith("STREAMING-"):
        return
    whole: io.RawIOBase = LimitedStream(
        environ["wsgi.input"], int(environ.get("CONTENT_LENGTH") or 0)
    )
    source = io.BufferedReader(whole)
    body = tempfile.SpooledTemporaryFile(max_size=MAX_IN_MEMORY_BYTES)  # noqa: SIM115 (read by the handler, collected with the request)
    try:
        for block in blocks(source, environ.get(CHUNKS)):
            body.write(block)
        environ.update(checksums(source))
    except (ValueError, ClientDisconnected) as error:
        raise AwsError("IncompleteBody", f"The request's chunks cannot be read: {error}") from error
    length = body.tell()
    if environ.get(LENGTH_HEADER, str(length)) != str(length):
        raise AwsError(
            "IncompleteBody",
            f"The chunks have {length} bytes, and x-amz-decoded-content-length says"
            f" {environ[LENGTH_HEADER][:40]}",
        )
    body.seek(0)
    environ.update(
        {"wsgi.input": body, "CONTENT_LENGTH": str(length), HASH_HEADER: "UNSIGNED-PAYLOAD"}
    )


def blocks(source: IO[bytes], signatures: ChunkSignatures | None = None) -> Iterator[bytes]:
    """Yield the content of the chunks; raise ValueError when they are malformed.

    The trailers are left in `source`. A chunk's signature is checked after its content
    was yielded, against `signatures` if the request has them.
    """
    is_last = False
    while not is_last:
        remaining, signature = _head(source.readline(MAX_LINE_BYTES))
        is_last, content = not remaining, hashlib.sha256()
        while remaining:
            block = source.read(min(remaining, BLOCK))
            if not block:
                raise ValueError("the last one is not whole")
            remaining -= len(block)
            content.update(block)
            yield block
        if signatures is not None:
            signatures.check(signature, content.hexdigest())
        if not is_last and source.read(2) != b"\r\n":
            raise ValueError("one is longer than it says")


def checksums(source: IO[bytes]) -> dict[str, str]:
    """Read the trailers to the end; return their checksums as headers of the WSGI environment."""
    headers = {}
    while line := source.readline(MAX_LINE_BYTES):
        if match := TRAILER.match(line):
            headers[f"HTTP_{match[1].decode().upper().replace('-', '_')}"] = match[2].decode()
    return headers


def _head(line: bytes) -> tuple[int, str]:
    """Return the size and the signature of a chunk, from its first line."""
    match = LINE.match(line)
    if match is None:
        raise ValueError(f"one does not begin with its size: {line[:40]!r}")
    return int(match[1], 16), (match[2] or b"").decode()
