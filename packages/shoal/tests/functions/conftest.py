"""An account of moto's, for functions that ask AWS for little, and what CloudFormation hears of its
custom resources.
"""

import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.functions.invocation import serving
from tests.functions.teardown_account import Account, whole


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def client(moto_url: str) -> Callable[[str], Any]:
    """Empty the account, and return what makes its clients."""
    reset = urllib.request.Request(f"{moto_url}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset).close()
    return partial(
        boto3.client,
        endpoint_url=moto_url,
        region_name="us-east-1",
        aws_access_key_id="111122223333",
        aws_secret_access_key="for-this-test",
    )


@pytest.fixture
def account() -> Iterator[Account]:
    """An execution that has ended with everything it creates in place, as its steps report it:
    ARNs are in lower case.
    """
    fake = whole()
    with serving(fake.answer) as url:
        yield Account(fake, url)
