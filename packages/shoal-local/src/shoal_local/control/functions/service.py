"""The Lambda API for functions and their resource policies.

Code comes from S3 or the request, is unpacked once, and is run by `invoker`. A setting that is not
emulated is refused by name.
"""

import base64
import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from shoal_local.archives import TooLargeError
from shoal_local.control.functions.invoker import LAMBDA, Invoker
from shoal_local.control.functions.model import (
    MAX_UNPACKED_BYTES,
    Code,
    Function,
    checked_settings,
    function_name,
    invalid,
    refusal,
    unpack,
)
from shoal_local.control.functions.sandbox import Outcome
from shoal_local.control.http.protocol import ApiCall
from shoal_local.control.identity.identity import Clients, Identity
from shoal_local.control.identity.policies import allows
from shoal_local.errors import AwsError

_missing = partial(AwsError, "ResourceNotFoundException", http_status=404)

TAIL_BYTES = 4096


@dataclass
class Functions:
    """The account's functions in this region."""

    identity: Identity
    clients: Clients
    invoker: Invoker
    folder: Path
    _functions: dict[str, Function] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def get(self, name_or_arn: str) -> Function:
        """Return the function; raise AwsError ResourceNotFoundException when it does not exist."""
        name = function_name(name_or_arn)
        function = self._functions.get(name)
        if function is None:
            raise _missing(f"Function not found: {self.arn(name)}")
        return function

    def arn(self, name: str) -> str:
        return self.identity.arn("lambda", f"function:{name}")

    def invoke(self, name_or_arn: str, event: Any) -> Outcome:
        """Invoke the function and wait for its answer."""
        return self.invoker.invoke(self.get(name_or_arn), event)

    def invoke_later(self, name_or_arn: str, event: Any) -> Future[str]:
        """Invoke the function asynchronously, with retries.

        The result is "" at the end, or the reason when all attempts failed.
        """
        self.get(name_or_arn)
        return self.invoker.invoke_later(lambda: self.get(name_or_arn), event)

    def service_may_invoke(self, name_or_arn: str, service: str, source_arn: str) -> bool:
        """Return whether the function's resource policy lets an AWS service invoke it for
        `source_arn`.
        """
        function = self.get(name_or_arn)
        principal = self.identity.service_principal(service)
        context = {**principal.context, "aws:SourceArn": source_arn}
        return allows(
            function.policy_document, principal, "lambda:InvokeFunction", function.arn, context
        )

    @property
    def operations(self) -> dict[str, Callable[[ApiCall], Mapping[str, Any]]]:
        """Return the handlers of operations on functions."""
        return {
            "CreateFunction": self._create,
            "GetFunction": self._get,
            "GetFunctionConfiguration": lambda call: self._version(call).configuration(),
            "UpdateFunctionCode": self._update_code,
            "UpdateFunctionConfiguration": self._update_configuration,
            "DeleteFunction": self._delete,
            "ListFunctions": lambda _call: {
                "Functions": [function.configuration() for function in self._functions.values()]
            },
            "Invoke": self._invoke,
            "AddPermission": self._add_permission,
            "RemovePermission": self._remove_permission,
            "GetPolicy": self._get_policy,
        }

    def _create(self, call: ApiCall) -> Mapping[str, Any]:
        request = call.parameters
        name = function_name(request["FunctionName"])
        settings = checked_settings(request)
        for required in ("Runtime", "Handler"):
            if required not in settings:
                raise invalid(
                    f"{required} is mandatory for functions created with deployment packages"
                )
        self._check_role(settings["Role"])
        code = self._code(request["Code"], name)
        tags = dict(request.get("Tags") or {})
        function = Function(name, self.arn(name), code, settings, tags=tags)
        with self._lock:
            if name in self._functions:
                raise AwsError("ResourceConflictException", f"Function already exist: {name}", 409)
            self._functions[name] = function
        return function.configuration()

    def _version(self, call: ApiCall) -> Function:
        """Return the function; raise AwsError for a version or alias other than $LATEST."""
        name, version = call.parameters["FunctionName"], call.parameters.get("Qualifier")
        return self.get(f"{name}:{version}" if version else name)

    def _get(self, call: ApiCall) -> Mapping[str, Any]:
        function = self._version(call)
        tags = {"Tags": dict(function.tags)} if function.tags else {}
        return {"Configuration": function.configuration(), "Code": {"RepositoryType": "S3"}, **tags}

    def _update_code(self, call: ApiCall) -> Mapping[str, Any]:
        function = self.get(call.parameters["FunctionName"])
        code = self._code(call.parameters, function.name)
        return self._replace(function, code=code)

    def _update_configuration(self, call: ApiCall) -> Mapping[str, Any]:
        function = self.get(call.parameters["FunctionName"])
        changes = checked_settings(call.parameters)
        if "Role" in changes:
            self._check_role(changes["Role"])
        return self._replace(function, settings={**function.settings, **changes})

    def _replace(self, function: Function, **changes: Any) -> Mapping[str, Any]:
        with self._lock:
            changed = self.get(function.name).changed(**changes)
            self._functions[function.name] = changed
        self.invoker.discard(function.name)
        return changed.configuration()

    def _delete(self, call: ApiCall) -> Mapping[str, Any]:
        function = self._version(call)
        with self._lock:
            del self._functions[function.name]
        self.invoker.discard(function.name, deleted=True)
        return {"StatusCode": 204}

    def _invoke(self, call: ApiCall) -> Mapping[str, Any]:
        function, payload = self._version(call), call.parameters.get("Payload") or b""
        try:
            event = json.loads(payload) if payload else {}
        except (ValueError, RecursionError) as error:
            raise AwsError(
                "InvalidRequestContentException", f"Could not parse request body into json: {error}"
            ) from error
        kind = call.parameters.get("InvocationType") or "RequestResponse"
        if kind == "DryRun":
            return {"StatusCode": 204}
        if kind == "Event":
            self.invoke_later(function.name, event)
            return {"StatusCode": 202}
        outcome = self.invoker.invoke(function, event)
        answer = {
            "StatusCode": 200,
            "ExecutedVersion": "$LATEST",
            "Payload": outcome.payload.encode(),
        }
        if call.parameters.get("LogType") == "Tail":
            answer["LogResult"] = base64.b64encode(outcome.log.encode()[-TAIL_BYTES:]).decode()
        if outcome.error is not None:
            answer["FunctionError"] = "Unhandled"
        return answer

    def _add_permission(self, call: ApiCall) -> Mapping[str, Any]:
        function, sid = self.get(call.parameters["FunctionName"]), call.parameters["StatementId"]
        statement = permission(call.parameters, function.arn)
        with self._lock:
            self._set_policy(function.name, {**self.get(function.name).policy, sid: statement})
        return {"Statement": json.dumps(statement)}

    def _remove_permission(self, call: ApiCall) -> Mapping[str, Any]:
        function, sid = self.get(call.parameters["FunctionName"]), call.parameters["StatementId"]
        with self._lock:
            policy = self.get(function.name).policy
            self._set_policy(function.name, {key: policy[key] for key in policy if key != sid})
        return {}

    def _set_policy(self, name: str, policy: Mapping[str, Mapping[str, Any]]) -> None:
        """Set a policy, which is no new revision of the code: warm processes stay."""
        self._functions[name] = replace(self.get(name), policy=policy)

    def _get_policy(self, call: ApiCall) -> Mapping[str, Any]:
        function = self.get(call.parameters["FunctionName"])
        if not function.policy:
            raise _missing("The resource you requested does not exist.")
        return {"Policy": json.dumps(function.policy_document), "RevisionId": function.revision}

    def _check_role(self, role_arn: str) -> None:
        try:
            self.identity.service_credentials(role_arn, "lambda-check", LAMBDA)
        except AwsError as error:
            message = (
                f"The role defined for the function cannot be assumed by Lambda. ({error.message})"
            )
            raise invalid(message) from error

    def _code(self, request: Mapping[str, Any], name: str) -> Code:
        if request.get("ImageUri"):
            raise invalid(
                "Shoal's emulator runs zip functions only, not container images (ImageUri)"
            )
        if request.get("ZipFile"):
            return unpack(bytes(request["ZipFile"]), self.folder / name)
        if not (request.get("S3Bucket") and request.get("S3Key")):
            raise invalid("Please provide a source for function code.")
        place = {"Bucket": request["S3Bucket"], "Key": request["S3Key"]}
        if request.get("S3ObjectVersion"):
            place["VersionId"] = request["S3ObjectVersion"]
        try:
            archive = self.clients("s3").get_object(**place)
        except ClientError as error:
            detail = error.response["Error"]
            raise invalid(
                f"Error occurred while GetObject. S3 Error Code: {detail.get('Code')}. S3 Error"
                f" Message: {detail.get('Message')}"
            ) from error
        # too large even before it is unpacked: it is not read into memory
        if archive["ContentLength"] > MAX_UNPACKED_BYTES:
            too_large = TooLargeError(f"the zip itself has {archive['ContentLength']}")
            raise invalid(refusal(too_large))
        return unpack(archive["Body"].read(), self.folder / name)


def permission(request: Mapping[str, Any], function_arn: str) -> dict[str, Any]:
    """Return the policy statement of an AddPermission."""
    name = request["Principal"]
    kind = "Service" if name.endswith(".amazonaws.com") else "AWS"
    conditions: dict[str, Any] = {}
    if request.get("SourceAccount"):
        conditions["StringEquals"] = {"AWS:SourceAccount": request["SourceAccount"]}
    if request.get("SourceArn"):
        conditions["ArnLike"] = {"AWS:SourceArn": request["SourceArn"]}
    return {
        "Sid": request["StatementId"],
        "Effect": "Allow",
        "Principal": "*" if name == "*" else {kind: name},
        "Action": request["Action"],
        "Resource": function_arn,
        **({"Condition": conditions} if conditions else {}),
    }
