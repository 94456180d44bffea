"""Who gets an answer of the emulator, and how large a request may be."""

import base64
import gzip
import json
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from local_kit.control import Account, send
from shoal_local import server
from shoal_local.control.http.loopback_guard import DEFAULT_MAX_BYTES, MAX_BYTES, check_size
from shoal_local.control.http.request_handler import RequestHandler
from shoal_local.errors import AwsError
from shoal_local.testing import in_process

FORM = "Action=GetCallerIdentity&Version=2011-06-15"
STS = (
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sts/aws4_request, SignedHeaders=host,"
    " Signature=0"
)
S3 = STS.replace("/sts/", "/s3/")
LOOPBACK = {"127.0.0.1": "0100007F", "::1": "00000000000000000000000001000000"}
"""As /proc/net has them."""


def port_of(account: Account) -> int:
    return int(urlsplit(account.endpoint).port or 0)


def ask(
    account: Account, headers: dict[str, str], body: str = FORM, host: str = "localhost:PORT"
) -> tuple[int, str]:
    """Send a request like boto3's GetCallerIdentity with these headers; return status and text.

    PORT in `host` becomes the emulator's own.
    """
    address = {"Host": host.replace("PORT", str(port_of(account)))}
    signed = account.signed("POST", "/", "sts", body.encode(), address)
    form = {"Content-Type": "application/x-www-form-urlencoded", "Content-Length": str(len(body))}
    return send(account, "POST", "/", {**address, **form, **signed, **headers}, body.encode())


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


@pytest.mark.parametrize(
    "host", ["localhost:PORT", "127.0.0.1:PORT", "[::1]:PORT", "LOCALHOST:PORT"]
)
def test_the_names_of_this_machine_are_answered(account: Account, host: str) -> None:
    status, text = ask(account, {}, host=host)
    assert (status, "<Account>111122223333</Account>" in text) == (200, True)


@pytest.mark.parametrize(
    "host",
    [
        *("attacker.example:PORT", "attacker.example", "localhost:1", "localhost"),
        *("localhost.attacker.example:PORT", "127.0.0.1.nip.io:PORT", "0.0.0.0:PORT"),
        *("user@localhost:PORT", "sts.us-east-1.amazonaws.com", "a/b.localhost:PORT"),
    ],
)
def test_a_foreign_host_is_refused_as_dns_rebinding_would_send_it(
    account: Account, host: str
) -> None:
    status, text = ask(account, {}, host=host)
    assert (status, "AccessDenied" in text, "111122223333" in text) == (403, True, False)


def test_a_request_without_a_host_is_refused(account: Account) -> None:
    head = f"POST / HTTP/1.0\r\nAuthorization: {STS}\r\nContent-Length: {len(FORM)}"
    with connect(port_of(account)) as connection:
        connection.sendall(f"{head}\r\n\r\n{FORM}".encode())
        assert b" 403 " in connection.makefile("rb").readline()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://attacker.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_what_a_page_of_another_site_asks_is_refused(
    account: Account, headers: dict[str, str]
) -> None:
    status, text = ask(account, headers)
    assert (status, "web pages of other sites" in text) == (403, True)


def test_what_a_page_sends_behind_a_refused_request_is_not_taken_for_the_next_one(
    account: Account,
) -> None:
    """A page may choose the body of its request, and that may look like a request that no page
    makes.
    """
    inner = (
        f"PUT /smuggled HTTP/1.1\r\nHost: localhost:{port_of(account)}\r\nAuthorization:"
        f" {S3}\r\nContent-Length: 0\r\n\r\n"
    )
    host = f"Host: localhost:{port_of(account)}\r\nOrigin: https://attacker.example"
    with connect(port_of(account)) as connection:
        head = f"POST / HTTP/1.1\r\n{host}\r\nContent-Length: {len(inner)}"
        connection.sendall(f"{head}\r\n\r\n{inner}".encode())
        answers = connection.makefile("rb").read()
    assert (answers.count(b"HTTP/1.1 "), b" 403 " in answers) == (1, True)
    assert "smuggled" not in str(account.client("s3").list_buckets()["Buckets"])


def test_an_answer_lets_no_other_site_read_it(account: Account) -> None:
    headers = account.client("s3").list_buckets()["ResponseMetadata"]["HTTPHeaders"]
    assert "access-control-allow-origin" not in headers


def test_a_bucket_can_be_addressed_by_its_name_below_localhost(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"Bucket": "by-its-name", "Key": "a key/with spaces+"}
    account.client("s3").create_bucket(Bucket="by-its-name")
    account.client("s3").put_object(**place, Body=b"found")
    hosts: list[str] = []
    virtual = account.client("s3", Config(s3={"addressing_style": "virtual"}))
    virtual.meta.events.register("before-send.s3", lambda request, **_: hosts.append(request.url))
    # Resolve names below localhost to this machine (RFC 6761), which not every system does.
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda _host, *more: resolve("localhost", *more))
    assert virtual.get_object(**place)["Body"].read() == b"found"
    listed = virtual.list_objects_v2(Bucket="by-its-name")["Contents"]
    assert [each["Key"] for each in listed] == [place["Key"]]
    assert hosts[0].startswith("http://by-its-name.localhost:")


def test_below_localhost_there_is_nothing_but_buckets(account: Account) -> None:
    status, text = ask(account, {}, host="some-bucket.localhost:PORT")
    assert (status, "sts is at localhost" in text) == (403, True)


@pytest.mark.parametrize(
    ("service", "method", "path", "code"),
    [
        ("sts", "POST", "/", 413),
        ("lambda", "POST", "/", 413),
        ("sagemaker", "POST", "/", 413),
        ("s3", "PUT", "/bucket/object", 400),
        ("s3", "POST", "/bucket?delete", 400),
        ("s3", "PUT", "/bucket?policy", 400),
    ],
)
def test_a_request_larger_than_the_service_takes_is_refused_before_it_is_read(
    account: Account, service: str, method: str, path: str, code: int
) -> None:
    max_bytes = DEFAULT_MAX_BYTES if "?" in path else MAX_BYTES.get(service, DEFAULT_MAX_BYTES)
    headers = account.signed(method, path, service, payload="UNSIGNED-PAYLOAD")
    headers["Content-Length"] = str(max_bytes + 1)
    status, text = send(account, method, path, headers, b"only the beginning")
    assert (status, str(max_bytes) in text) == (code, True)


def test_what_boto3_compresses_is_read(account: Account) -> None:
    """boto3 compresses more than 10,240 bytes of measurements."""
    names = (f"{'long' * 20}-{number}" for number in range(300))
    data: list[Any] = [{"MetricName": name, "Value": 1.0} for name in names]
    account.client("cloudwatch").put_metric_data(Namespace="Compressed", MetricData=data)
    pages = account.client("cloudwatch").get_paginator("list_metrics")
    assert sum(len(page["Metrics"]) for page in pages.paginate(Namespace="Compressed")) == 300


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (gzip.compress(bytes(DEFAULT_MAX_BYTES + 1), mtime=0), 413),
        (gzip.compress(bytes(9), mtime=0)[:-9], 400),
        (b"no gzip", 400),
    ],
)
def test_what_is_damaged_or_too_large_when_it_is_unpacked_is_refused(
    account: Account, body: bytes, code: int
) -> None:
    headers = {
        **account.signed("POST", "/", "logs", body),
        "Content-Encoding": "gzip",
        "Content-Type": "application/x-amz-json-1.1",
        "X-Amz-Target": "Logs_20140328.DescribeLogGroups",
    }
    assert send(account, "POST", "/", headers, body)[0] == code


def chunks(size: int) -> Iterator[bytes]:
    for _ in range(size // 65536 + 1):
        yield b" " * 65536


def test_a_request_in_chunks_is_refused_at_the_limit_too(account: Account) -> None:
    body, headers = chunks(DEFAULT_MAX_BYTES), {"Authorization": STS}
    assert send(account, "POST", "/", headers, body, encode_chunked=True)[0] == 413


@pytest.fixture(scope="module")
def in_chunks(account: Account) -> str:
    """Create a bucket for uploads in chunks."""
    account.client("s3").create_bucket(Bucket="in-chunks")
    return "in-chunks"


def content(account: Account, key: str) -> bytes:
    return bytes(account.client("s3").get_object(Bucket="in-chunks", Key=key)["Body"].read())


@pytest.mark.usefixtures("in_chunks")
def test_an_object_in_chunks_is_kept_whole(account: Account) -> None:
    path = "/in-chunks/object"
    headers = account.signed("PUT", path, "s3", payload="UNSIGNED-PAYLOAD")
    assert send(account, "PUT", path, headers, chunks(200_000), encode_chunked=True)[0] == 200
    assert len(content(account, "object")) == 262_144


@pytest.mark.usefixtures("in_chunks")
@pytest.mark.parametrize(
    "kind",
    ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "multipart/form-data"],
)
def test_an_upload_that_calls_itself_a_form_is_kept_as_it_came(account: Account, kind: str) -> None:
    """`curl --data-binary @file` says so of every upload."""
    headers = account.signed("PUT", "/in-chunks/form", "s3", b"a=1&b=2") | {"Content-Type": kind}
    assert send(account, "PUT", "/in-chunks/form", headers, b"a=1&b=2")[0] == 200
    assert content(account, "form") == b"a=1&b=2"


def put_in_chunks(account: Account, body: bytes, length: int, key: str) -> tuple[int, str]:
    """Upload chunks that announce `length` bytes; return status and answer."""
    headers = {"Content-Encoding": "aws-chunked", "x-amz-decoded-content-length": str(length)}
    path, payload = f"/in-chunks/{key}", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    signed = account.signed("PUT", path, "s3", headers=headers, payload=payload)
    return send(account, "PUT", path, signed, body)


CHUNK = b"400\r\n%s\r\n" % (b"x" * 1024)
END = b"0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n"
"""With the digest of an empty object."""


@pytest.mark.usefixtures("in_chunks")
@pytest.mark.parametrize("chunks_", [3, 9000])
def test_an_object_in_aws_chunks_is_kept_without_them(account: Account, chunks_: int) -> None:
    crc32 = base64.b64encode(zlib.crc32(b"x" * 1024 * chunks_).to_bytes(4, "big"))
    end = END.replace(b"AAAAAA==", crc32)
    status, text = put_in_chunks(account, CHUNK * chunks_ + end, 1024 * chunks_, "in-aws-chunks")
    assert status == 200, text
    assert content(account, "in-aws-chunks") == b"x" * 1024 * chunks_


@pytest.mark.parametrize(
    ("body", "length", "code"),
    [
        (b"", 0, "IncompleteBody"),
        (b"no size\r\n", 10, "IncompleteBody"),
        (b"-1;\r\nx\r\n", 10, "IncompleteBody"),
        (b"fffffffffffffff;\r\nx\r\n", 10, "IncompleteBody"),
        (CHUNK, 1024, "IncompleteBody"),
        (CHUNK[:-3], 1024, "IncompleteBody"),
        (CHUNK.replace(b"400", b"3ff") + END, 1023, "IncompleteBody"),
        (CHUNK + END, 10**15, "IncompleteBody"),
        (b"x" * 100_000, 100_000, "IncompleteBody"),
        (CHUNK + END, 1024, "BadDigest"),  # the checksum that trails the chunks is another's
    ],
)
@pytest.mark.usefixtures("in_chunks")
def test_chunks_that_are_none_or_corrupted_are_refused_and_nothing_is_kept(
    account: Account, body: bytes, length: int, code: str
) -> None:
    status, text = put_in_chunks(account, body, length, "none")
    assert (status, f"<Code>{code}</Code>" in text) == (400, True), text
    assert account.client("s3").list_objects_v2(Bucket="in-chunks", Prefix="none")["KeyCount"] == 0


def listening(pid: int) -> set[str]:
    """Return the addresses at which a process listens, in hexadecimal as /proc/net has them."""
    sockets = {
        str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()
    }
    inodes = {link[8:-1] for link in sockets if link.startswith("socket:[")}
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
    ]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and row[9] in inodes}


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's /proc")
def test_it_listens_on_loopback_only(account: Account) -> None:
    pid = json.loads((account.state_dir / "emulator.json").read_text())["pid"]
    assert listening(pid) == {LOOPBACK[host] for host in server.hosts()}


def test_only_its_user_may_look_into_the_state_directory(account: Account) -> None:
    account.client("sts").get_caller_identity()
    files = [path for path in account.state_dir.iterdir() if path.is_file()]
    settings = f"sagemaker-{account.region}-{account.number}.yaml"
    names = (".shoal-emulator", "emulator.json", "emulator.log", "requests.jsonl", settings)
    assert account.state_dir.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in files} == dict.fromkeys(names, 0o600)


def test_a_header_with_a_line_break_is_the_callers_mistake(account: Account) -> None:
    account.client("s3").create_bucket(Bucket="header-breaks")
    account.client("s3").put_object(Bucket="header-breaks", Key="key", Body=b"x")
    with pytest.raises(ClientError, match="InvalidArgument"):
        account.client("s3").get_object(
            Bucket="header-breaks", Key="key", ResponseContentType="text/plain\r\nX-Other: 1"
        )


def test_half_a_request_keeps_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestHandler, "timeout", 0.2)
    with in_process(tmp_path / "state") as emulator:
        port = urlsplit(emulator.endpoint_url()).port or 0
        with connect(port) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-")
            assert connection.recv(1) == b""


@pytest.mark.parametrize("signed", [True, False])
def test_only_a_signed_put_may_have_a_large_body(signed: bool) -> None:
    scope = "AWS4-HMAC-SHA256 Credential=AKIA/20261125/us-east-1/s3/aws4_request"
    large = {"REQUEST_METHOD": "PUT", "CONTENT_LENGTH": str(DEFAULT_MAX_BYTES + 1)}
    if signed:
        check_size(large | {"HTTP_AUTHORIZATION": scope})
        return
    with pytest.raises(AwsError, match="exceeds the maximum allowed size"):
        check_size(large)
