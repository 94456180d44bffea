"""What runs before a script: installing requirements, and torchrun's options."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import pytest
from botocore.stub import Stubber

from local_kit.runtime import Runtime
from shoal.launch import tables, watch
from shoal.launch.watch import install
from tests.private_index import PACKAGE, VERSION, private_index
from tests.training_code.training import write_watched

REPOSITORY = "arn:aws:codeartifact:eu-west-1:444455556666:repository/acme/pypi"
PLACE = "https://acme-444455556666.d.codeartifact.eu-west-1.amazonaws.com/pypi/pypi/"
DOMAIN = {"domain": "acme", "domainOwner": "444455556666"}
AT_URL = {"url": "https://nexus.example.com/simple/", "secret": "team/index", "region": "us-east-1"}
FORMS = {
    '{"username": "u", "password": "p"}': ("u", "p"),
    "a-token\n": ("__token__", "a-token"),
    "12345": ("__token__", "12345"),
    '{"username": "u"}': None,
}


class Stubs:
    """Clients whose requests botocore compares with the service's shapes and with what follows."""

    def __init__(self, *calls: tuple[str, dict[str, Any], dict[str, Any]]) -> None:
        self.calls, self.regions = calls, set[str]()

    def __call__(self, service: str, region_name: str) -> Any:
        keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
        self.regions.add(region_name)
        client = boto3.client(service, region_name=region_name, **keys)  # type: ignore[call-overload]
        stubber = Stubber(client)
        for method, request, answer in self.calls:
            stubber.add_response(method, answer, request)
        stubber.activate()
        return client


def test_a_token_of_codeartifact_is_for_its_domain_and_short() -> None:
    token = DOMAIN | {"durationSeconds": install.TOKEN_S}
    place = DOMAIN | {"repository": "pypi", "format": "pypi"}
    stubs = Stubs(
        ("get_authorization_token", token, {"authorizationToken": "t0ken"}),
        ("get_repository_endpoint", place, {"repositoryEndpoint": PLACE}),
    )
    index = {"codeartifact": REPOSITORY, "region": "us-east-1"}
    assert install.login(index, stubs) == (f"{PLACE}simple/", "aws", "t0ken")
    assert stubs.regions == {"eu-west-1"}


@pytest.mark.parametrize("text", FORMS)
def test_a_secret_is_a_pair_or_a_token(text: str) -> None:
    stubs = Stubs(("get_secret_value", {"SecretId": "team/index"}, {"SecretString": text}))
    if (pair := FORMS[text]) is None:
        with pytest.raises(ValueError, match="team/index has no username and password"):
            install.login(AT_URL, stubs)
    else:
        assert install.login(AT_URL, stubs) == (AT_URL["url"], *pair)


@pytest.mark.parametrize("password", ['a"b\\c#d', "#1", '"quoted"', "p:a@s/s%20", "two words"])
def test_pip_finds_the_password_in_its_file_and_the_log_has_it_in_no_form(
    tmp_path: Path, password: str
) -> None:
    file, is_taken = tmp_path / "netrc", " " not in password
    with nullcontext() if is_taken else pytest.raises(ValueError, match="has white space"):
        install.write_login(file, "nexus.example.com", "me", password)
    assert file.stat().st_mode & 0o077 == 0
    for form in (password, quote(password, safe="")):
        assert form not in install.masked(f"GET https://me:{form}@nexus/", "me", password)


@pytest.mark.parametrize("version", [VERSION, "9.9"])
def test_one_rank_of_a_host_installs_and_the_others_wait(tmp_path: Path, version: str) -> None:
    requirements = f"{PACKAGE}=={version}\n".encode()
    with private_index() as url:
        index = {"index": {"url": url, "region": "us-east-1"}}
        write_watched(tmp_path, index, {watch.MOVED: requirements})
        command = [sys.executable, "-I", str(tmp_path / watch.FOLDER / "install.py")]
        variables = {"PATH": os.environ["PATH"], "PIP_TARGET": str(tmp_path / "packages")}
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        ranks = [subprocess.Popen(command, env=variables, text=True, **options) for _ in range(3)]
        said = [rank.communicate(timeout=100) for rank in ranks]
    is_there = version == VERSION
    assert [rank.returncode for rank in ranks] == [0 if is_there else 1] * 3
    assert "".join(log for _, log in said).count("shoal: installing") == 1
    assert (tmp_path / "packages" / f"{PACKAGE}.py").is_file() is is_there
    assert {f"found for {PACKAGE}==9.9" in reason for reason, _ in said} == {not is_there}
    assert (tmp_path / "requirements.txt").read_bytes() == requirements


ENDS_THE_JOB = """
import contextlib, io, json, sys
from torch.distributed.run import get_args_parser
def ends(word):
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            get_args_parser().parse_args(["train.py", word, "1"])
        except SystemExit:
            return True
    return False
options = sorted(o for a in get_args_parser()._actions for o in a.option_strings if o[:2] == "--")
words = sorted({option[:end] for option in options for end in range(3, len(option) + 1)})
short = [f"-{word[2]}" for word in words if len(word) == 3]
print(json.dumps([options, [word for word in (*words, *short) if ends(word)]]))
"""


@pytest.fixture(scope="module")
def torchrun(runtime: Runtime) -> tuple[list[str], set[str]]:
    """Return the options of the runtime's torchrun, and the words that end a job."""
    command = runtime.alone("-c", ENDS_THE_JOB)
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    options, words = json.loads(answer.stdout)
    return options, set(words)


def test_the_table_has_every_option_of_torchrun(torchrun: tuple[list[str], set[str]]) -> None:
    assert sorted(f"--{option}" for option in tables.torchrun_options()) == torchrun[0]


def test_just_the_names_that_end_a_job_are_ambiguous(torchrun: tuple[list[str], set[str]]) -> None:
    names = {
        option[:end] for option in tables.torchrun_options() for end in range(1, len(option) + 1)
    }
    as_words = {name: f"--{name}" if len(name) > 1 else f"-{name}" for name in names}
    assert {name for name in names if tables.torchrun_options_from(name)} == {
        name for name, word in as_words.items() if word in torchrun[1]
    }
