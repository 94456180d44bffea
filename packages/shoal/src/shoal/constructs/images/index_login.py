"""What a build of an image runs first where the organisation has a package index: it writes the
file by which pip asks there, as a secret of BuildKit's, which is in no layer and no history.
"""

from __future__ import annotations

import shlex

from shoal.settings.package_index import PackageIndex

BUILD_S = 7200
"""How long a build may take, and a token of CodeArtifact's is good for."""
BUILD_OPTION = '--secret id=pip,src="$settings"'
"""How `docker build` gets it."""
_LOGIN = """\
import json, sys, urllib.parse as urls
text = sys.stdin.read().strip()
try: value = json.loads(text)
except ValueError: value = None
is_pair = isinstance(value, dict)
pair = (value["username"], value["password"]) if is_pair else ("__token__", text)
print(":".join(urls.quote(each, safe="") for each in pair) + "@")
"""


def index_login(index: PackageIndex | None) -> str:
    """Return the commands, in bash, each with its indentation; "" where there is no index.

    Each RUN of the Dockerfile gets the secret as pip's settings: a recipe need not know of it.
    """
    if index is None:
        return ""
    # who cannot read it would install from the public index
    mount = "--mount=type=secret,id=pip,target=/etc/pip.conf,required=true,mode=0444"
    lines = [
        *(_of_codeartifact(index.codeartifact) if index.codeartifact else _of_url(index)),
        "settings=$(mktemp)",
        'printf \'[global]\\nindex-url = %s\\n\' "$scheme://$login$place" > "$settings"',
        f"sed -i -E 's#^[[:space:]]*run[[:space:]]#RUN {mount} #I' Dockerfile",
    ]
    return "\n  ".join([*lines, ""])


def _of_codeartifact(arn: str) -> list[str]:
    _, _, _, region, owner, path = arn.split(":")
    _, domain, repository = path.split("/")
    of = ["--region", region, "--domain", domain, "--domain-owner", owner, "--output", "text"]
    ask = ["aws", "codeartifact"]
    token = [*ask, "get-authorization-token", *of, "--duration-seconds", str(BUILD_S)]
    place = [*ask, "get-repository-endpoint", *of, "--repository", repository, "--format", "pypi"]
    return [
        f"token=$({shlex.join([*token, '--query', 'authorizationToken'])})",
        f"place=$({shlex.join([*place, '--query', 'repositoryEndpoint'])})",
        'scheme=https login="aws:$token@" place="${place#https://}" place="${place%/}/simple/"',
    ]


def _of_url(index: PackageIndex) -> list[str]:
    scheme, _, place = str(index.url).partition("://")
    lines = [f"scheme={scheme} login= place={shlex.quote(place)}"]
    if index.secret:
        ask = ["aws", "secretsmanager", "get-secret-value", "--secret-id", index.secret]
        ask += ["--query", "SecretString", "--output", "text"]
        lines.append(f"login=$({shlex.join(ask)} | python3 -c {shlex.quote(_LOGIN)})")
    return lines
