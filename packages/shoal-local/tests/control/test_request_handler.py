"""Connections to the emulator: they stay open while requests can be told apart, and end with it."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from shoal_local.testing import LocalAccount, in_process

FORM = b"Action=GetCallerIdentity&Version=2011-06-15"
TYPE = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def connection(account: LocalAccount) -> Iterator[http.client.HTTPConnection]:
    opened = http.client.HTTPConnection("localhost", urlsplit(account.endpoint).port, timeout=30)
    yield opened
    opened.close()


def test_a_connection_takes_one_request_after_another(
    account: LocalAccount, connection: http.client.HTTPConnection
) -> None:
    connection.connect()
    first = connection.sock
    for _ in range(2):
        connection.request("POST", "/", FORM, account.signed("POST", "/", "sts", FORM, TYPE))
        answer = connection.getresponse()
        assert (answer.status, connection.sock) == (200, first)
        assert account.number in answer.read().decode()


def test_a_body_that_nobody_read_ends_the_connection(
    account: LocalAccount, connection: http.client.HTTPConnection
) -> None:
    headers = account.signed("POST", "/", "sts", FORM, TYPE) | {"Origin": "http://other.example"}
    connection.request("POST", "/", FORM, headers)
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Connection")) == (403, "close")


def test_open_connections_end_with_the_emulator(tmp_path: Path) -> None:
    with in_process(tmp_path / "state") as emulator:
        port = urlsplit(emulator.endpoint_url()).port
        connection = http.client.HTTPConnection("localhost", port, timeout=30)
        connection.request("GET", "/")
        connection.getresponse().read()
        opened = connection.sock
    assert opened.recv(1) == b""
    connection.close()


@pytest.mark.parametrize(
    "lengths", [["5", "50"], ["5", "5"], ["+5"], ["9" * 5000]], ids=["two", "twice", "sign", "long"]
)
def test_a_length_that_is_no_single_number_is_refused_and_ends_the_connection(
    account: LocalAccount, connection: http.client.HTTPConnection, lengths: list[str]
) -> None:
    connection.putrequest("POST", "/")
    for length in lengths:
        connection.putheader("Content-Length", length)
    connection.endheaders()
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Connection")) == (400, "close")
    assert b"Content-Length is not a number of bytes" in answer.read()


def test_a_body_without_end_that_nobody_reads_is_not_read_to_its_end(
    account: LocalAccount, connection: http.client.HTTPConnection
) -> None:
    connection.putrequest("POST", "/")
    connection.putheader("Origin", "http://other.example")
    connection.putheader("Content-Length", str(10**12))
    connection.endheaders()
    with pytest.raises(ConnectionError):  # 64 MiB are more than what sockets hold
        connection.send([bytes(1024 * 1024)] * 64)
