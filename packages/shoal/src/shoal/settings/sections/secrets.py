"""Secrets by name: what a training may read from Secrets Manager. No file has a value."""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated

from pydantic import Field

from shoal.settings.parsing.errors import Problem
from shoal.settings.sections.network import InterfaceEndpoint, Network

SecretVariable = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=64)]
SecretName = Annotated[str, Field(pattern=r"^[A-Za-z0-9/_+=.@-]+$", max_length=256)]
"""Source: Secrets Manager API reference, CreateSecret, Name (read)."""

PREFIX = "SHOAL_SECRET_"
"""What the names of the container's variables begin with; their values are the secrets' names."""
MAX_SECRETS = 20
_TOKEN = re.compile(
    r"(hf_|gh[opsur]_|github_pat_|glpat-|sk-(?=\w{20}|proj-|ant-)|xox[a-z]-|AKIA|ASIA|AIza|eyJ|npm_|pypi-|dckr_pat_).{8}"
)
"""How the tokens of well-known services begin."""
_MIN_RANDOM = 20
_SCALARS = ("environment.secrets", "hyperparameters.secrets")
"""No section, but an entry that somebody called so."""
ANYWHERE = re.compile(
    r"(?<![A-Za-z0-9])(hf_\w{20}|gh[opsur]_\w{20}|github_pat_\w{20}|glpat-[\w-]{15}"
    r"|sk-(?=\w{20}|proj-|ant-)[\w-]{20}|[rs]k_live_\w{20}|nvapi-[\w-]{20}|ya29\.[\w-]{20}"
    r"|xox[a-z]-[\w-]{10}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30}|eyJ[\w-]{10,}\.eyJ|npm_\w{20}"
    r"|pypi-[\w-]{20}|dckr_pat_[\w-]{15}|hooks\.slack\.com/services/\w+)|-----BEGIN [A-Z ]*PRIVATE KEY|://[^/\s:@]+:[^/\s@]+@"
)
"""Tokens, private keys and passwords of URLs, within any text."""
_SECRET_NAME = re.compile(
    r"(^|[_.-])(token|secret|password|passwd|credentials?|(api|access|secret|private)[_-]?key)$",
    re.I,
)
_PASSWORD_NAME = re.compile(r"(^|[_.-])(password|passwd|passphrase)$", re.I)
_KEY = re.compile(
    r"[0-9a-fA-F-]{32,}|(?=.*[A-Z])(?=.*[a-z])(?=.*\d)[A-Za-z0-9/+]{40}"  # the last: AWS's
)


def variables(secrets: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the training container: where each secret is, never its value."""
    return {f"{PREFIX}{variable}": name for variable, name in secrets.items()}


def problems(secrets: Mapping[str, str], network: Network, *, is_shared: bool) -> Iterator[Problem]:
    """Yield what is wrong with the secrets of an environment, whose network workloads may share."""
    yield from problems_of(secrets, "training.secrets")
    service = InterfaceEndpoint.SECRETS_MANAGER
    has_way = network.has_way or service in network.interface_endpoints
    if secrets and is_shared and not has_way:
        message = "are out of reach: the network that the workloads share has no way to them"
        advice = f"add {service} to network.interface_endpoints, or set network.nat: true"
        yield Problem("training.secrets", message, advice, related=("network",))


def problems_of(secrets: Mapping[str, str], where: str) -> Iterator[Problem]:
    """Yield what is wrong with secrets, which stand at the key `where`.

    No problem shows a value: it may be the secret itself.
    """
    if len(secrets) > MAX_SECRETS:
        yield Problem(where, f"has {len(secrets)} secrets", f"keep at most {MAX_SECRETS}")
    for variable, name in secrets.items():
        if _TOKEN.match(name) or _looks_random(name):
            message = "looks like a secret, and must be the name of one in Secrets Manager"
            advice = "store it there, name it here, and replace it: it was in a file"
            yield Problem(f"{where}.{variable}", message, advice)


def found_in(value: object, key: str = "") -> Iterator[Problem]:
    """Yield the keys, below `key`, whose text looks like a secret; none shows the text.

    What stands at `secrets` has rules of its own (`problems_of`).
    """
    name = key.rpartition(".")[2]
    if name == "secrets" and not key.endswith(_SCALARS):
        return
    if isinstance(value, Mapping):
        for each, inner in value.items():
            yield from found_in(inner, f"{key}.{each}" if key else str(each))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from found_in(inner, f"{key}[{index}]")
    elif isinstance(value, str) and _is_secret(name, key, value):
        message = "looks like a secret, which would be in git, in templates and in what AWS shows"
        advice = "store it in Secrets Manager, name it at `secrets`, and replace it"
        yield Problem(key, message, advice)


def _is_secret(name: str, key: str, text: str) -> bool:
    if ANYWHERE.search(text) or (text and _PASSWORD_NAME.search(name)):
        return True
    is_variable = "environment" in key.split(".")
    if is_variable and (_TOKEN.match(text) or _looks_random(text)):
        return True
    is_named = _SECRET_NAME.search(name) is not None
    return is_named and (_looks_random(text) or _KEY.fullmatch(text) is not None)


def _looks_random(text: str) -> bool:
    """Return whether upper case, lower case and digits change as often as in random text."""
    kinds = [
        "digit" if each.isdigit() else "upper" if each.isupper() else "lower"
        for each in text
        if each.isalnum()
    ]
    changes = sum(first != second for first, second in pairwise(kinds))
    return len(kinds) >= _MIN_RANDOM and len(set(kinds)) == 3 and changes > 0.4 * len(kinds)
