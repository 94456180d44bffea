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
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import IO, Any
from urllib.parse import parse_qs, urlsplit

from botocore.auth import HmacV1QueryAuth, S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials
from werkzeug.exceptions import ClientDisconnected
from werkzeug.wsgi import LimitedStream

from shoal_local.context import RoleCredentials
from shoal_local.control.http.loopback_guard import (
    BLOCK,
    MAX_IN_MEMORY_BYTES,
    SIGNED_HOST,
    SIGNED_PATH,
)
from shoal_local.control.http.protocol import CREDENTIAL, Signature, buffer_body
from shoal_local.errors import AwsError

AUTHORIZATION = re.compile(
    r"^AWS4-HMAC-SHA256 +Credential=\S+?, *SignedHeaders=(?P<headers>[^,\s]+),"
    r" *Signature=(?P<signature>[0-9a-f]{64})$"
)
TIMESTAMP = "%Y%m%dT%H%M%SZ"
MAX_SKEW = timedelta(minutes=15)
MAX_EXPIRES_S = 604_800
UNSIGNED = "UNSIGNED-PAYLOAD"
UNSIGNED_CHUNKS = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
EXPIRED = "Request has expired"
NOT_SUPPORTED = (
    "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256."
)
SHA256 = re.compile(r"^[0-9a-f]{64}$")


def check_signature(
    environ: dict[str, Any], signature: Signature | None, credentials: RoleCredentials | None
) -> None:
    """Raise AwsError unless the request is signed with `credentials`.

    They are what belongs to the signature's access key; None means that nobody has that key. The
    body is read into memory, except a large one for S3.
    """
    if signature is None:
        raise _unsigned(environ)
    is_s3 = signature.service == "s3"
    if credentials is None:
        raise _unknown_key(is_s3)
    if _is_version_2(environ):
        _check_version_2(environ, credentials)
        return
    signed = _signed(environ, is_s3)
    if not _equal(signed.token, credentials.session_token):
        raise _wrong_token(is_s3)
    signer, request = signed.request(environ, credentials)
    expected = signer.signature(
        signer.string_to_sign(request, signer.canonical_request(request)), request
    )
    if not _equal(expected, signed.signature):
        raise _mismatch()
    _check_time(signed, is_s3)


@dataclass(frozen=True)
class _Signed:
    """The parts of a signature, from the Authorization header or from a presigned URL."""

    region: str
    service: str
    headers: tuple[str, ...]
    signature: str
    timestamp: str
    token: str
    payload: str
    """The hash of the body, or the word that stands in its place."""
    expires_s: int | None = None

    def request(
        self, environ: Mapping[str, Any], credentials: RoleCredentials
    ) -> "tuple[_Signer, AWSRequest]":
        """Return the request as the client signed it, and who signs it again."""
        target = urlsplit(environ.get(SIGNED_PATH) or environ["RAW_URI"])
        query = "&".join(
            pair for pair in target.query.split("&") if not pair.startswith("X-Amz-Signature=")
        )
        request = AWSRequest(
            environ["REQUEST_METHOD"], f"http://localhost{target.path or '/'}?{query}"
        )
        request.context["timestamp"] = self.timestamp
        for name in self.headers:
            request.headers[name] = _header(environ, name)
        kind = _S3Signer if self.service == "s3" else _Signer
        key = Credentials(credentials.access_key_id, credentials.secret_access_key)
        return kind(key, self.service, self.region, self.payload), request


class _Signer(SigV4Auth):
    """Signs the headers that the client signed, no others, and the body's hash that it named."""

    def __init__(
        self, credentials: Credentials, service: str, region: str, payload_hash: str
    ) -> None:
        super().__init__(credentials, service, region)
        self._payload_hash = payload_hash

    def headers_to_sign(self, request: AWSRequest) -> HTTPHeaders:
        headers = HTTPHeaders()
        for name, value in request.headers.items():
            headers[name.lower()] = value
        return headers

    def payload(self, _request: AWSRequest) -> str:
        return self._payload_hash

    def canonical_request(self, request: AWSRequest) -> str:
        head, _, _ = super().canonical_request(request).rpartition("\n")
        return f"{head}\n{self._payload_hash}"


class _S3Signer(_Signer, S3SigV4Auth):
    """Leaves the path as it is, as S3 does."""


class _Version2(HmacV1QueryAuth):
    """Signs a URL of S3 with version 2, in which boto3 still presigns by default."""

    def __init__(self, credentials: Credentials, expires_at: str) -> None:
        super().__init__(credentials)
        self._expires_at = expires_at

    def _get_date(self) -> str:
        return self._expires_at


def _signed(environ: dict[str, Any], is_s3: bool) -> _Signed:
    """Return the parts of the request's signature; raise AwsError where one is missing."""
    header = environ.get("HTTP_AUTHORIZATION", "").strip()
    query = _query(environ)
    expires_s: int | None = None
    if credential := CREDENTIAL.search(header):
        match = AUTHORIZATION.match(header)
        names, signature = (match["headers"], match["signature"]) if match else ("", "")
        timestamp = environ.get("HTTP_X_AMZ_DATE", "")
        token = environ.get("HTTP_X_AMZ_SECURITY_TOKEN", "")
        missing = "Authorization header is not Credential, SignedHeaders, Signature"
    else:
        credential = CREDENTIAL.search(f"Credential={query.get('X-Amz-Credential', '')}")
        if credential is None or query.get("X-Amz-Algorithm") != "AWS4-HMAC-SHA256":
            raise AwsError("InvalidRequest", NOT_SUPPORTED)
        names, signature = query.get("X-Amz-SignedHeaders", ""), query.get("X-Amz-Signature", "")
        timestamp, token = query.get("X-Amz-Date", ""), query.get("X-Amz-Security-Token", "")
        expires_s = _expires(query.get("X-Amz-Expires", "900"))
        missing = "The URL lacks X-Amz-SignedHeaders with host, or X-Amz-Signature"
    if "host" not in names.split(";") or not SHA256.match(signature):
        raise AwsError("IncompleteSignature", missing)
    if not re.fullmatch(r"\d{8}T\d{6}Z", timestamp) or timestamp[:8] != credential[2]:
        missing = "X-Amz-Date is missing, or not of the day of the credential"
        raise AwsError("IncompleteSignature", missing)
    return _Signed(
        region=credential[3],
        service=credential[4],
        headers=tuple(names.split(";")),
        signature=signature,
        timestamp=timestamp,
        token=token,
        payload=_payload(environ, is_s3, presigned=expires_s is not None),
        expires_s=expires_s,
    )


def _query(environ: Mapping[str, Any]) -> dict[str, str]:
    return {name: each[0] for name, each in parse_qs(environ.get("QUERY_STRING", "")).items()}


def _check_time(signed: _Signed, is_s3: bool) -> None:
    """Raise AwsError for a signature of another time than now."""
    signed_at, now = datetime.fromisoformat(signed.timestamp), datetime.now(UTC)
    if signed.expires_s is not None:
        if not -MAX_SKEW <= now - signed_at <= timedelta(seconds=signed.expires_s):
            raise AwsError("AccessDenied", EXPIRED, 403)
    elif abs(now - signed_at) > MAX_SKEW and is_s3:
        message = "The difference between the request time and the current time is too large."
        raise AwsError("RequestTimeTooSkewed", message, 403)
    elif abs(now - signed_at) > MAX_SKEW:
        message = f"Signature expired: {signed.timestamp} is too far from {now:{TIMESTAMP}}"
        raise AwsError("SignatureDoesNotMatch", message, 403)


def _is_version_2(environ: Mapping[str, Any]) -> bool:
    return "AWSAccessKeyId=" in environ.get("QUERY_STRING", "") and not (
        CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
        or "X-Amz-Credential=" in environ.get("QUERY_STRING", "")
    )


def _check_version_2(environ: Mapping[str, Any], credentials: RoleCredentials) -> None:
    """Raise AwsError unless a URL of S3 is presigned with version 2 (S3 user guide, "Signing and
    authenticating REST requests").
    """
    query = _query(environ)
    token, expires = query.get("x-amz-security-token", ""), query.get("Expires", "")
    if not _equal(token, credentials.session_token):
        raise _wrong_token(is_s3=True)
    plain = {"content-md5", "content-type"}
    headers = {name: query[name] for name in query if name.startswith("x-amz-") or name in plain}
    key = Credentials(credentials.access_key_id, credentials.secret_access_key)
    target = urlsplit(environ["RAW_URI"])
    expected = _Version2(key, expires).get_signature(environ["REQUEST_METHOD"], target, headers)
    if not _equal(expected, query.get("Signature", "")):
        raise _mismatch()
    if not expires.isascii() or not expires.isdigit() or int(expires[:12]) < time.time():
        raise AwsError("AccessDenied", EXPIRED, 403)


def _payload(environ: dict[str, Any], is_s3: bool, *, presigned: bool) -> str:
    """Return what stands for the body in the signature.

    S3's clients name the hash, because the body may be large. That of a body which is not read into
    memory is not compared with its bytes.
    """
    if not is_s3:
        return _sha256(environ)
    named = str(environ.get("HTTP_X_AMZ_CONTENT_SHA256", UNSIGNED if presigned else ""))
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


def _expires(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:9]) > MAX_EXPIRES_S:
        raise AwsError(
            "AuthorizationQueryParametersError",
            f"X-Amz-Expires must be a number of seconds up to {MAX_EXPIRES_S}",
        )
    return int(text)


def _unsigned(environ: Mapping[str, Any]) -> AwsError:
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


def _wrong_token(is_s3: bool) -> AwsError:
    if is_s3:
        message = "The provided token is malformed or otherwise invalid."
        return AwsError("InvalidToken", message, 400)
    return _unknown_key(is_s3)


def _mismatch() -> AwsError:
    message = (
        "The request signature we calculated does not match the signature you provided. Check your"
        " AWS Secret Access Key and signing method."
    )
    return AwsError("SignatureDoesNotMatch", message, 403)


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
