"""Decode uploads to S3 in chunks (`aws-chunked`), which clients send when a checksum follows.

moto would do it in memory, and allocate as many bytes as a header announces. Format: S3 API
reference, "Transferring Payload in Multiple Chunks": a line with the size, as many bytes, and so
on; a chunk of size 0 and trailers end it. Chunks with signatures are refused by `signatures`. A
checksum in a trailer becomes a header, as which it is checked.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from werkzeug.exceptions import ClientDisconnected
from werkzeug.wsgi import LimitedStream

from shoal_local.control.http.loopback_guard import BLOCK, MAX_IN_MEMORY_BYTES
from shoal_local.errors import AwsError

HASH_HEADER = "HTTP_X_AMZ_CONTENT_SHA256"
LENGTH_HEADER = "HTTP_X_AMZ_DECODED_CONTENT_LENGTH"
TRAILER = re.compile(rb"^(x-amz-checksum-\w+):([\w+/=]+)\r?\n?$")
LINE = re.compile(rb"^([0-9a-fA-F]{1,16})(?:;[^\r\n]*)?\r\n$")
MAX_LINE_BYTES = 1024


def decode_chunks(environ: dict[str, Any]) -> None:
    """Replace the chunked body of a request by its bytes, in a file when they are many.

    Raises AwsError IncompleteBody.
    """
    if not environ.get(HASH_HEADER, "").startswith("STREAMING-"):
        return
    whole: io.RawIOBase = LimitedStream(
        environ["wsgi.input"], int(environ.get("CONTENT_LENGTH") or 0)
    )
    source = io.BufferedReader(whole)
    body = tempfile.SpooledTemporaryFile(max_size=MAX_IN_MEMORY_BYTES)  # noqa: SIM115 (read by the handler, collected with the request)
    try:
        for block in blocks(source):
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


def blocks(source: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of the chunks; raise ValueError when they are malformed.

    The trailers are left in `source`.
    """
    while remaining := _size(source.readline(MAX_LINE_BYTES)):
        while remaining:
            block = source.read(min(remaining, BLOCK))
            if not block:
                raise ValueError("the last one is not whole")
            remaining -= len(block)
            yield block
        if source.read(2) != b"\r\n":
            raise ValueError("one is longer than it says")


def checksums(source: IO[bytes]) -> dict[str, str]:
    """Read the trailers to the end; return their checksums as headers of the WSGI environment."""
    headers = {}
    while line := source.readline(MAX_LINE_BYTES):
        if match := TRAILER.match(line):
            headers[f"HTTP_{match[1].decode().upper().replace('-', '_')}"] = match[2].decode()
    return headers


def _size(line: bytes) -> int:
    """Return the size of a chunk, from its first line."""
    match = LINE.match(line)
    if match is None:
        raise ValueError(f"one does not begin with its size: {line[:40]!r}")
    return int(match[1], 16)
