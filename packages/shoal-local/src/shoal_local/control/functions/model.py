"""A Lambda function as the API shows it: configuration, code and resource policy."""

import base64
import hashlib
import io
import json
import re
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from shoal_local.archives import BadArchiveError, TooLargeError, unpack_zip
from shoal_local.errors import AwsError

invalid = partial(AwsError, "InvalidParameterValueException")
"""Lambda's error for a parameter that it does not take."""

RUNTIMES = (
    *(f"python3.{minor}" for minor in range(10, 16)),
    *(f"nodejs{major}.x" for major in range(20, 27, 2)),
)
"""Of botocore 1.44.5, without those that can no longer be created."""
MAX_ENVIRONMENT_BYTES = 4096
LIMITS = {"Timeout": (1, 900, "seconds"), "MemorySize": (128, 32_768, "MB")}
NAME = re.compile(
    r"^(?:(?:arn:aws:lambda:[\w-]+:)?\d{12}:function:)?(?P<name>[\w-]{1,64})(?::(?P<qualifier>[\w$-]+))?$"
)
MAX_UNPACKED_BYTES = (
    262_144_000  # "Unzipped size must be smaller than 262144000 bytes", as Lambda says it
)
# Settings that would be kept and not honoured.
UNSUPPORTED = ("Layers", "FileSystemConfigs", "ImageConfig", "SnapStart", "DeadLetterConfig")
SUPPORTED = (
    *("Description", "MemorySize", "Timeout", "Handler", "Role", "Runtime", "Environment"),
    *("VpcConfig", "TracingConfig", "KMSKeyArn", "LoggingConfig"),
)


@dataclass(frozen=True)
class Code:
    """A deployed zip and the folder that it is unpacked into."""

    sha256: str
    size_bytes: int
    folder: Path


@dataclass(frozen=True)
class Function:
    """One version ($LATEST) of a function; an update makes a new value with a new `revision`."""

    name: str
    arn: str
    code: Code
    settings: Mapping[str, Any]
    policy: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    """All revisions have the same ones."""
    revision: str = field(default_factory=lambda: str(uuid.uuid4()))
    modified_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def timeout_s(self) -> int:
        return int(self.settings.get("Timeout", 3))

    @property
    def memory_mb(self) -> int:
        return int(self.settings.get("MemorySize", 128))

    @property
    def log_group(self) -> str:
        return str(
            self.settings.get("LoggingConfig", {}).get("LogGroup") or f"/aws/lambda/{self.name}"
        )

    @property
    def policy_document(self) -> dict[str, Any]:
        return {"Version": "2012-10-17", "Id": "default", "Statement": list(self.policy.values())}

    def changed(self, **changes: Any) -> "Function":
        """Return this function with changes, as a new revision."""
        return replace(self, **changes, revision=str(uuid.uuid4()), modified_at=datetime.now(UTC))

    def configuration(self) -> dict[str, Any]:
        """Return the Lambda API's FunctionConfiguration."""
        configuration = {
            "FunctionName": self.name,
            "FunctionArn": self.arn,
            "Role": self.settings["Role"],
            "Runtime": self.settings["Runtime"],
            "Handler": self.settings["Handler"],
            "Description": self.settings.get("Description", ""),
            "Timeout": self.timeout_s,
            "MemorySize": self.memory_mb,
            "CodeSha256": self.code.sha256,
            "CodeSize": self.code.size_bytes,
            "LastModified": self.modified_at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "+0000",
            "Version": "$LATEST",
            "State": "Active",
            "LastUpdateStatus": "Successful",
            "PackageType": "Zip",
            "Architectures": ["x86_64"],
            "EphemeralStorage": {"Size": 512},
            "TracingConfig": {"Mode": "PassThrough", **self.settings.get("TracingConfig", {})},
            "LoggingConfig": {"LogFormat": "Text", "LogGroup": self.log_group},
            "RevisionId": self.revision,
            "Environment": self.settings.get("Environment"),
        }
        if vpc := self.settings.get("VpcConfig"):
            names = ("SubnetIds", "SecurityGroupIds")
            configuration["VpcConfig"] = {name: vpc[name] for name in names if name in vpc}
        return {name: value for name, value in configuration.items() if value is not None}


def function_name(name_or_arn: str) -> str:
    """Return the plain name; raise AwsError for another form, and for a version or alias other than
    $LATEST.
    """
    match = NAME.match(name_or_arn)
    if not match:
        raise invalid(f"'{name_or_arn}' is not a function's name or ARN")
    if match.group("qualifier") not in (None, "$LATEST"):
        raise invalid(f"Shoal's emulator has no versions or aliases of functions: {name_or_arn}")
    return match.group("name")


def checked_settings(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a request; raise AwsError for one that is not emulated."""
    for name in UNSUPPORTED:
        if request.get(name):
            raise invalid(f"Shoal's emulator does not run functions with {name}")
    runtime = request.get("Runtime")
    if runtime and runtime not in RUNTIMES:
        raise invalid(
            f"Shoal's emulator does not run {runtime} functions; it has {', '.join(RUNTIMES)}"
        )
    for name, (least, most, unit) in LIMITS.items():
        value = request.get(name)
        if value is not None and not least <= int(value) <= most:
            raise invalid(f"{name} must be between {least} and {most} {unit}, not {value}")
    variables = (request.get("Environment") or {}).get("Variables") or {}
    measured = json.dumps(variables, separators=(",", ":"), ensure_ascii=False)
    if len(measured.encode(errors="surrogatepass")) > MAX_ENVIRONMENT_BYTES:
        raise invalid(
            "Lambda was unable to configure your environment variables because the environment"
            f" variables you have provided exceeded the 4KB limit. String measured: {measured}"
        )
    return {name: request[name] for name in SUPPORTED if request.get(name) is not None}


def unpack(archive: bytes, root: Path) -> Code:
    """Unpack a deployment zip under `root`, once per content."""
    digest = hashlib.sha256(archive)
    folder = root / digest.hexdigest()[:32]
    if not folder.exists():
        temporary = root / f".{folder.name}-{uuid.uuid4().hex}"
        temporary.mkdir(parents=True)
        try:
            unpack_zip(io.BytesIO(archive), temporary, MAX_UNPACKED_BYTES)
            temporary.rename(folder)
        except BadArchiveError as error:
            raise invalid(refusal(error)) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return Code(base64.b64encode(digest.digest()).decode(), len(archive), folder)


def refusal(error: BadArchiveError) -> str:
    """Return why an archive is refused, in Lambda's words where it has some."""
    if isinstance(error, TooLargeError):
        return f"Unzipped size must be smaller than {MAX_UNPACKED_BYTES} bytes ({error})"
    return f"Could not unzip uploaded file: {error}"
