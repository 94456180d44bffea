"""S3 objects that are too large for memory go to disk and come from there, a block at a time.

moto keeps an object above 5 MiB in a temporary file, and yet reads it whole wherever it touches it.
Here its value is a `Body`, which supports what moto does with it: a length, slices (ranges), and
blocks. Smaller objects are bytes, as before.
"""

import base64
import binascii
import hashlib
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from moto.core.common_types import TYPE_RESPONSE
from moto.s3 import responses, utils
from moto.s3.exceptions import EntityTooSmall, InvalidPart, MalformedXML, S3ClientError
from moto.s3.models import FakeKey, FakeMultipart, S3Backend
from moto.s3.responses import S3Response
from moto.settings import S3_UPLOAD_PART_MIN_SIZE, get_s3_default_key_buffer_size
from werkzeug.datastructures import ImmutableMultiDict

from shoal_local.control.http.loopback_guard import MAX_IN_MEMORY_BYTES
from shoal_local.control.http.signatures import SHA256

BLOCK = 1024 * 1024
Checksum = tuple[str, str, int]
"""FULL_OBJECT or COMPOSITE, the checksum in base64, and the number of parts."""

_value_of_moto = FakeKey.value
_set_up_by_moto = S3Response.setup_class
_complete_by_moto = S3Backend.complete_multipart_upload
_checksum_by_moto = utils.compute_checksum


class Body:
    """A part of a file, read by position.

    Several threads may read at once, and it stays readable when the object is overwritten or
    deleted.
    """

    def __init__(self, file: io.FileIO, start: int, length: int) -> None:
        self._file, self._start, self._length = file, start, length

    @classmethod
    def of(cls, file: Any, length: int) -> "Body":
        """Return the first `length` bytes of an open file, which may then be closed."""
        file.flush()
        return cls(io.FileIO(os.dup(file.fileno()), "rb"), 0, length)

    def close(self) -> None:
        self._file.close()

    def __len__(self) -> int:
        return self._length

    def __deepcopy__(self, _memo: dict[int, Any]) -> "Body":
        """Return itself, as it never changes: moto copies whole objects to list their versions."""
        return self

    def __getitem__(self, part: slice) -> "Body":
        start, stop, _ = part.indices(self._length)
        return Body(self._file, self._start + start, max(0, stop - start))

    def __iter__(self) -> Iterator[bytes]:
        """Yield blocks; raise OSError for a shorter file, which must not look like the end."""
        position = 0
        while position < self._length:
            block = os.pread(
                self._file.fileno(), min(BLOCK, self._length - position), self._start + position
            )
            if not block:
                raise OSError(f"an object of {self._length} bytes ends after {position}")
            position += len(block)
            yield block


class Concatenation:
    """Several values, one after the other."""

    def __init__(self, values: Sequence[bytes | Body]) -> None:
        self._values = values

    def __len__(self) -> int:
        return sum(len(value) for value in self._values)

    def __iter__(self) -> Iterator[bytes]:
        for value in self._values:
            yield from blocks_of(value)


def blocks_of(value: bytes | Body | Concatenation) -> Iterable[bytes]:
    return (value,) if isinstance(value, bytes) else value


def value_of(key: FakeKey) -> bytes | Body:
    """Return an object's content."""
    if key.contentsize <= key._max_buffer_size:
        return bytes(_value_of_moto.fget(key))  # type: ignore[attr-defined]
    with key.lock:
        return Body.of(key._value_buffer, key.contentsize)


def keep(key: FakeKey, value: str | bytes | Body | Concatenation) -> None:
    """Replace an object's content."""
    if not isinstance(value, Body | Concatenation):
        _value_of_moto.fset(key, value)  # type: ignore[attr-defined]
        return
    key._value_buffer.seek(0)
    key._value_buffer.truncate()
    for block in value:
        key._value_buffer.write(block)
    key.contentsize = len(value)


def complete(
    upload: FakeMultipart, chosen_parts: Iterator[tuple[int, str]]
) -> tuple[Concatenation, str, Checksum | None]:
    """Return object, ETag and checksum; errors: S3 API reference, CompleteMultipartUpload."""
    parts: list[FakeKey] = []
    for number, etag in chosen_parts:
        part = upload.parts.get(number)
        if part is None or part.etag.strip('"') != etag.strip('"'):
            raise InvalidPart
        if parts and parts[-1].contentsize < S3_UPLOAD_PART_MIN_SIZE:
            raise EntityTooSmall
        parts.append(part)
    if not parts:
        raise MalformedXML
    digests = b"".join(bytes.fromhex(part.etag.strip('"')) for part in parts)
    etag = f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"
    values = [value_of(part) for part in parts]
    algorithm, kind = (
        upload.metadata.get(f"x-amz-checksum-{name}") for name in ("algorithm", "type")
    )
    return Concatenation(values), etag, _checksum(values, algorithm or "", kind or "COMPOSITE")


def _checksum(values: Sequence[bytes | Body], algorithm: str, kind: str) -> Checksum | None:
    """Return the checksum; None for an algorithm for which moto may take another one."""
    compute = _ALGORITHMS.get(algorithm)
    if compute is None:
        return None
    if kind == "FULL_OBJECT":
        return kind, base64.b64encode(compute(Concatenation(values))).decode(), 1
    of_parts = b"".join(compute(blocks_of(value)) for value in values)
    return kind, base64.b64encode(compute([of_parts])).decode(), len(values)


def _crc32(blocks: Iterable[bytes]) -> bytes:
    checksum = 0
    for block in blocks:
        checksum = binascii.crc32(block, checksum)
    return checksum.to_bytes(4, "big")


def sha256(blocks: Iterable[bytes]) -> bytes:
    hasher = hashlib.sha256()
    for block in blocks:
        hasher.update(block)
    return hasher.digest()


_ALGORITHMS: dict[str, Callable[[Iterable[bytes]], bytes]] = {"CRC32": _crc32, "SHA256": sha256}


def checksum_of(value: bytes | Body, algorithm: str) -> bytes:
    """Return the checksum of an object in base64: of a copy, or of an upload that brings none."""
    compute = _ALGORITHMS.get(algorithm)
    if compute is None or isinstance(value, bytes):
        return _checksum_by_moto(b"".join(blocks_of(value)), algorithm)
    return base64.b64encode(compute(value))


def complete_and_forget_parts(
    backend: S3Backend, bucket: str, upload: str, chosen_parts: Iterator[tuple[int, str]]
) -> FakeKey | None:
    """Complete the upload and delete its parts, which moto would keep as long as the object."""
    key = _complete_by_moto(backend, bucket, upload, chosen_parts)
    if key is not None and key.multipart is not None:
        key.multipart.dispose()
    return key


def set_up(
    response: S3Response, request: Any, full_url: str | None = None, headers: Any = None
) -> None:
    """Spool a large upload to a file before moto asks for the request's bytes.

    No upload by PUT is a form. werkzeug would parse one where the Content-Type says so, as curl's
    does, and the object would be empty.
    """
    if request.method == "PUT":
        request.__dict__.update(form=ImmutableMultiDict(), files=ImmutableMultiDict())
    if request.method == "PUT" and (request.content_length or 0) > get_s3_default_key_buffer_size():
        request._cached_data = _spooled(request.stream, request.content_length)
    _set_up_by_moto(response, request, full_url, headers)


def checked(answer: Callable[[S3Response], TYPE_RESPONSE]) -> Callable[[S3Response], TYPE_RESPONSE]:
    """Return a method of moto that refuses an upload that is not what its headers say."""

    def checked_answer(response: S3Response) -> TYPE_RESPONSE:
        check_upload(response.headers, response.raw_body)
        return answer(response)

    return checked_answer


def check_upload(headers: Mapping[str, str], body: bytes | Body) -> None:
    """Raise S3ClientError for a checksum that is not the body's: moto would keep and tell it.

    Of a large body, the signed hash is compared too; `signatures` has done it for a small one.
    """
    for name in _ALGORITHMS:
        value = headers.get(f"x-amz-checksum-{name.lower()}")
        if value is not None and checksum_of(body, name).decode() != value:
            message = f"The {name} you specified did not match the calculated checksum."
            raise S3ClientError("BadDigest", message)
    named = headers.get("x-amz-content-sha256", "")
    is_signed = len(body) > MAX_IN_MEMORY_BYTES and SHA256.match(named)
    if is_signed and sha256(blocks_of(body)).hex() != named:
        message = "The provided 'x-amz-content-sha256' header does not match what was computed."
        raise S3ClientError("XAmzContentSHA256Mismatch", message)


def _spooled(source: IO[bytes], length: int) -> Body:
    """Return the body as a file; raise OSError when it is shorter than announced."""
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(source, file, BLOCK)
        if file.tell() != length:
            raise OSError(f"of {length} announced bytes {length - file.tell()} did not come")
        return Body.of(file, length)


PATCHES: tuple[tuple[object, str, Any], ...] = (
    (FakeKey, "value", property(value_of, keep)),
    (FakeMultipart, "complete", complete),
    (S3Backend, "complete_multipart_upload", complete_and_forget_parts),
    (S3Response, "setup_class", set_up),
    (S3Response, "put_object", checked(S3Response.put_object)),
    (S3Response, "upload_part", checked(S3Response.upload_part)),
    (responses, "compute_checksum", checksum_of),
)
