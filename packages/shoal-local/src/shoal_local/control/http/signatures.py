"""Check the signature (version 4) of every request, with the code that botocore signs with, and
decode uploads to S3 in chunks (`aws-chunked`), which clients send when a checksum follows.

Formats and errors: IAM user guide, "AWS Signature Version 4 for API requests" and "Troubleshoot
signed requests"; S3 API reference, "Authenticating Requests (AWS Signature Version 4)" and "Error
responses"; "Common Error Types" of the IAM API reference. Read, not recorded at AWS. Checked here
with botocore and the AWS CDK's JavaScript SDK as clients.

moto would decode in memory, and allocate as many bytes as a header announces. Format: S3 API
reference, "Transferring Payload in Multiple Chunks": a line with the size, as many bytes, and so
on; a chunk of size 0 and trailers end it. Chunks with signatures are refused. A checksum in a
trailer becomes a header, as which it is checked.
"""

import hashlib
import hmac
import io
import re
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import IO, Any

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials
from werkzeug.exceptions import ClientDisconnected
from werkzeug.wsgi import LimitedStream

from shoal_local.context import RoleCredentials
from shoal_local.control.http.loopback_guard import (
    MAX_IN_MEMORY_BYTES,
    SIGNED_HOST,
    SIGNED_PATH,
)
from shoal_local.control.http.protocol import BLOCK, CREDENTIAL, Signature, buffer_body
from shoal_local.errors import AwsError

AUTHORIZATION = re.compile(
    rf"^AWS4-HMAC-SHA256 +{CREDENTIAL.pattern}, *SignedHeaders=(?P<headers>[^,\s]+),"
    r" *Signature=(?P<signature>[0-9a-f]{64})$"
)
TIMESTAMP = "%Y%m%dT%H%M%SZ"
MAX_SKEW = timedelta(minutes=15)
HASH_HEADER = "HTTP_X_AMZ_CONTENT_SHA256"
UNSIGNED_CHUNKS = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
SHA256 = re.compile(r"^[0-9a-f]{64}$")
MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your"
    " AWS Secret Access Key and signing method."
)


def check_signature(
    environ: dict[str, Any], signature: Signature | None, credentials: RoleCredentials | None
) -> None:
    """Raise AwsError unless the request is signed with `credentials`, in its Authorization header.

    They are what belongs to the signature's access key; None means that nobody has that key. The
    body is read into memory, except a large one for S3.
    """
    if signature is None:
        raise _unsigned(environ)
    is_s3 = signature.service == "s3"
    if credentials is None:
        raise _unknown_key(is_s3)
    signed = AUTHORIZATION.match(environ["HTTP_AUTHORIZATION"].strip())
    if signed is None or "host" not in signed["headers"].split(";"):
        reason = "Authorization header is not Credential, SignedHeaders, Signature"
        raise AwsError("IncompleteSignature", reason)
    timestamp = environ.get("HTTP_X_AMZ_DATE", "")
    if not re.fullmatch(r"\d{8}T\d{6}Z", timestamp) or timestamp[:8] != signed["day"]:
        reason = "X-Amz-Date is missing, or not of the day of the credential"
        raise AwsError("IncompleteSignature", reason)
    payload_hash = _payload_hash(environ, is_s3)
    if not _equal(environ.get("HTTP_X_AMZ_SECURITY_TOKEN", ""), credentials.session_token):
        message = "The provided token is malformed or otherwise invalid."
        raise AwsError("InvalidToken", message) if is_s3 else _unknown_key(is_s3)
    path = environ.get(SIGNED_PATH) or environ["RAW_URI"]
    request = AWSRequest(environ["REQUEST_METHOD"], f"http://localhost{path}")
    request.context["timestamp"] = timestamp
    for name in signed["headers"].split(";"):
        request.headers[name] = _header(environ, name)
    key = Credentials(credentials.access_key_id, credentials.secret_access_key)
    kind = _S3Signer if is_s3 else _Signer
    signer = kind(key, signed["service"], signed["region"], payload_hash)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    if not _equal(signer.signature(text, request), signed["signature"]):
        raise AwsError("SignatureDoesNotMatch", MISMATCH, 403)
    _check_time(timestamp, is_s3)


class _Signer(SigV4Auth):
    """Signs the headers that the client signed, no others, and the body's hash that it named."""

    def __init__(
        self, credentials: Credentials, service: str, region: str, payload_hash: str
    ) -> None:
        super().__init__(credentials, service, region)
        self._payload_hash = payload_hash

    def headers_to_sign(self, request: AWSRequest) -> HTTPHeaders:
        return request.headers

    def payload(self, _request: AWSRequest) -> str:
        return self._payload_hash

    def canonical_request(self, request: AWSRequest) -> str:
        head, _, _ = super().canonical_request(request).rpartition("\n")
        return f"{head}\n{self._payload_hash}"


class _S3Signer(_Signer, S3SigV4Auth):
    """Leaves the path as it is, as S3 does."""


def _check_time(timestamp: str, is_s3: bool) -> None:
    """Raise AwsError for a signature of another time than now."""
    now = datetime.now(UTC)
    if abs(now - datetime.fromisoformat(timestamp)) <= MAX_SKEW:
        return
    if is_s3:
        message = "The difference between the request time and the current time is too large."
        raise AwsError("RequestTimeTooSkewed", message, 403)
    message = f"Signature expired: {timestamp} is too far from {now:{TIMESTAMP}}"
    raise AwsError("SignatureDoesNotMatch", message, 403)


def _payload_hash(environ: dict[str, Any], is_s3: bool) -> str:
    """Return what stands for the body in the signature.

    S3's clients name the hash, because the body may be large. That of a body which is not read into
    memory is not compared with its bytes.
    """
    if not is_s3:
        return _sha256(environ)
    named = str(environ.get(HASH_HEADER, ""))
    if not named:
        raise AwsError(
            "InvalidRequest", "Missing required header for this request: x-amz-content-sha256"
        )
    if named.startswith("STREAMING-") and named != UNSIGNED_CHUNKS:
        message = f"Shoal's emulator takes uploads in chunks as {UNSIGNED_CHUNKS}, not {named[:40]}"
        raise AwsError("NotImplemented", message, 501)
    is_small = int(environ.get("CONTENT_LENGTH") or 0) <= MAX_IN_MEMORY_BYTES
    if SHA256.match(named) and is_small and named != _sha256(environ):
        message = "The provided 'x-amz-content-sha256' header does not match what was computed."
        raise AwsError("XAmzContentSHA256Mismatch", message)
    return named


def _sha256(environ: dict[str, Any]) -> str:
    return hashlib.sha256(buffer_body(environ)).hexdigest()


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _header(environ: Mapping[str, Any], name: str) -> str:
    """Return the header as the client sent it."""
    key = name.upper().replace("-", "_")
    if key == "HOST" and SIGNED_HOST in environ:
        return str(environ[SIGNED_HOST])
    plain = key in {"CONTENT_TYPE", "CONTENT_LENGTH"}
    value = str(environ.get(key if plain else f"HTTP_{key}", ""))
    return value.encode("latin-1", "replace").decode("utf-8", "replace")


def _unsigned(environ: Mapping[str, Any]) -> AwsError:
    if re.search("X-Amz-Credential=|AWSAccessKeyId=", environ.get("QUERY_STRING", "")):
        return AwsError("AccessDenied", "Shoal's emulator takes no presigned URLs", 403)
    content_type = environ.get("CONTENT_TYPE", "")
    if environ.get("HTTP_X_AMZ_TARGET") or content_type.startswith("application/"):
        message = "Request is missing Authentication Token"
        return AwsError("MissingAuthenticationToken", message, 403)
    return AwsError("AccessDenied", "Access Denied", 403)


def _unknown_key(is_s3: bool) -> AwsError:
    if is_s3:
        message = "The AWS Access Key Id you provided does not exist in our records."
        return AwsError("InvalidAccessKeyId", message, 403)
    message = "The security token included in the request is invalid."
    return AwsError("InvalidClientTokenId", message, 403)


LENGTH_HEADER = "HTTP_X_AMZ_DECODED_CONTENT_LENGTH"
TRAILER = re.compile(rb"^(x-amz-checksum-\w+):([\w+/=]+)\r?\n?$")
LINE = re.compile(rb"^([0-9a-fA-F]{1,16})(?:;[^\r\n]*)?\r\n$")
MAX_LINE_BYTES = 1024


def decode_chunks(environ: dict[str, Any]) -> None:
    """Replace a chunked body by its bytes, in a file if they are many; AwsError IncompleteBody."""
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
    """Yield the chunks' content and leave the trailers; raise ValueError for malformed ones."""
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
