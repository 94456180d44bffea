"""Install requirements.txt from the organisation's package index, once on each host, before the
script: run.py starts this program in each rank, and the first one installs.

The log has what pip prints; standard output has the reason if it fails, and then the exit code is
1. pip is told the index's address in its environment, and who asks in a file: what pip starts to
build a package gets an address on its command line.
"""

from __future__ import annotations

import base64
import fcntl
import json
import netrc
import os
import subprocess
import sys
import tempfile
from collections import deque
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

HERE = Path(__file__).resolve().parent
TOKEN_S, LAST_LINES = 1800, 12
"""Seconds that a token of CodeArtifact's is good for, at least 900; lines of a reason."""
TOKEN_USER = "__token__"  # noqa: S105 (what indexes call whoever has a token alone)


def login(index: dict[str, str], client: Any) -> tuple[str, str, str]:
    """Return the index's address, and user and password for it; "" for both if it asks nobody.

    `client(service, region_name=...)` is boto3's, with the role of the job.
    """
    if "codeartifact" in index:
        _, _, _, region, owner, path = index["codeartifact"].split(":")
        _, domain, repository = path.split("/")
        service = client("codeartifact", region_name=region)
        of = {"domain": domain, "domainOwner": owner}
        token = service.get_authorization_token(**of, durationSeconds=TOKEN_S)
        place = service.get_repository_endpoint(**of, repository=repository, format="pypi")
        url = f"{place['repositoryEndpoint'].rstrip('/')}/simple/"
        return url, "aws", token["authorizationToken"]
    if "secret" not in index:
        return index["url"], "", ""
    secrets = client("secretsmanager", region_name=index["region"])
    text = secrets.get_secret_value(SecretId=index["secret"])["SecretString"].strip()
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        return index["url"], TOKEN_USER, text
    if not (value.get("username") and value.get("password")):
        raise ValueError(f"the secret {index['secret']} has no username and password")
    return index["url"], str(value["username"]), str(value["password"])


def aws_client(service: str, region_name: str) -> Any:
    """Return boto3's, which an image of your own may lack."""
    return import_module("boto3").client(service, region_name=region_name)


def write_login(file: Path, host: str, user: str, password: str) -> None:
    """Write the file in which pip looks up who asks. Raise ValueError for what it cannot have.

    Python 3.11 and later read a backslash there as an escape, and earlier ones do not.
    """
    for escaped in ("", "\\"):
        words = (
            "".join(escaped + each if each in '\\"' else each for each in word)
            for word in (user, password)
        )
        file.touch(mode=0o600)
        file.write_text("machine {} login {} password {}\n".format(host, *words))
        try:
            known = netrc.netrc(str(file)).authenticators(host)
        except netrc.NetrcParseError:
            continue
        if known and (known[0], known[2]) == (user, password):
            return
    raise ValueError("the secret has white space or a letter with which pip cannot ask")


def masked(line: str, user: str, password: str) -> str:
    """Return a line without the password, in any form that it is sent or written in."""
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    for each in (pair, password, quote(password, safe=""), quote(password)):
        line = line.replace(each, "****") if password else line
    return line


def run_pip(url: str, user: str, password: str) -> list[str]:
    """Install, and print each line; return the last ones if pip fails."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "PIP_INDEX_URL": url, "PIP_NO_INPUT": "1"}
        environ["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
        if password:
            environ["NETRC"] = str(Path(folder, "netrc"))
            write_login(Path(folder, "netrc"), str(urlsplit(url).hostname), user, password)
        process = subprocess.Popen(
            [sys.executable, "-m", "pip", "install", "-r", "requirements.txt"],
            cwd=HERE.parent,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        last = deque[str](maxlen=LAST_LINES)
        for line in process.stdout or ():
            last.append(masked(line.rstrip(), user, password))
            print(last[-1], file=sys.stderr, flush=True)
        code = process.wait()
        if code == 0:
            return []
        return [f"pip ended with {code}{refusal(url, user, password)}", *last]


def refusal(url: str, user: str, password: str) -> str:
    """Return that the index refuses who asks, if it does: pip says that nothing is there."""
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    request = Request(url)  # noqa: S310 (the settings take https://, and http:// on loopback)
    if password:  # not for a place that it sends us to
        request.add_unredirected_header("Authorization", f"Basic {pair}")
    try:
        urlopen(request, timeout=10).close()  # noqa: S310
    except HTTPError as error:
        return f"; the index answers {user or 'nobody'} {error.code}" if error.code < 404 else ""
    except OSError as error:
        return f"; {error}"
    return ""


def install(index: dict[str, str]) -> str:
    """Install, with the file where the toolkit looks for it; return the reason if that fails."""
    requirements, password = HERE / "requirements.txt", ""
    (HERE.parent / requirements.name).write_bytes(requirements.read_bytes())
    try:
        url, user, password = login(index, aws_client)
        print(f"shoal: installing requirements.txt from {url}", file=sys.stderr, flush=True)
        return "\n".join(run_pip(url, user, password))
    except Exception as error:  # noqa: BLE001 (boto3's, of the secret's form, of this machine)
        return masked(f"{type(error).__name__}: {error}", "", password)


def main() -> int:
    """Install unless another rank of this host has, or has failed to; return the exit code."""
    with (HERE / "installed").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not (text := file.read()):
            index = json.loads((HERE / "watch.json").read_text())["index"]
            text = json.dumps(install(index))
            file.write(text)
    reason = json.loads(text)
    print(reason)
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
