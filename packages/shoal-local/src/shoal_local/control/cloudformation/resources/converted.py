"""Plain types whose properties the API has in another form."""

import io
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from botocore.exceptions import ClientError
from moto.backends import get_backend
from moto.s3.models import s3_backends

from shoal_local.control.cloudformation.resources.base import (
    Request,
    ResourceError,
    as_bool,
    ignore_missing,
    names,
)
from shoal_local.control.cloudformation.resources.plain import Facts, PlainType

Properties = Mapping[str, Any]
_RULE_MEMBERS = names(
    "Id Status Prefix ExpirationInDays NoncurrentVersionExpirationInDays"
    " NoncurrentVersionExpiration AbortIncompleteMultipartUpload ExpiredObjectDeleteMarker"
    " Transitions"
)
_IN_DAYS = {
    "ExpirationInDays": ("Expiration", "Days"),
    "ExpiredObjectDeleteMarker": ("Expiration", "ExpiredObjectDeleteMarker"),
    "NoncurrentVersionExpirationInDays": ("NoncurrentVersionExpiration", "NoncurrentDays"),
}


class Bucket(PlainType):
    """AWS::S3::Bucket."""

    def facts(self, request: Request) -> Facts:
        facts = super().facts(request)
        if request.region != "us-east-1":
            facts["Location"] = {"LocationConstraint": request.region}
        return facts

    def converted(self, properties: Properties) -> Properties:
        convert: dict[str, Callable[[Any], Any]] = {
            "BucketEncryption": _encryption,
            "LifecycleConfiguration": _lifecycle,
            "LoggingConfiguration": _logging,
            "NotificationConfiguration": _notifications,
            "AccessControl": _canned,
        }
        values = {
            name: convert[name](value) if name in convert else value
            for name, value in properties.items()
        }
        return {name: value for name, value in values.items() if value != "private"}

    def set_one(self, request: Request, name: str) -> None:
        """Set a property, and the target of logs also before its policy allows the log service.

        AWS takes the setting then. moto needs the policy first.
        """
        try:
            super().set_one(request, name)
        except ClientError as error:
            if error.response["Error"]["Code"] != "InvalidTargetBucketForLogging":
                raise
            buckets = s3_backends[request.account]["aws"].buckets
            if request[name]["TargetBucket"] not in buckets:
                raise
            buckets[request.physical_id].logging = request[name]

    def _retag(self, request: Request) -> None:
        if request.tags():
            tagging = {"TagSet": request.tags()}
            request.call("s3", "PutBucketTagging", Bucket=request.physical_id, Tagging=tagging)


def _encryption(configuration: Properties) -> Any:
    return {
        "Rules": [
            {
                "ApplyServerSideEncryptionByDefault": rule["ServerSideEncryptionByDefault"],
                **{key: rule[key] for key in ("BucketKeyEnabled",) if key in rule},
            }
            for rule in configuration["ServerSideEncryptionConfiguration"]
        ]
    }


def _lifecycle(configuration: Properties) -> Any:
    return {"Rules": [_rule(rule, number) for number, rule in enumerate(configuration["Rules"])]}


def _rule(rule: Properties, number: int) -> dict[str, Any]:
    unknown = sorted(set(rule) - _RULE_MEMBERS)
    if unknown:
        raise ResourceError(
            f"Shoal's emulator does not emulate {unknown[0]} in lifecycle rules of buckets"
        )
    copied = ("AbortIncompleteMultipartUpload", "NoncurrentVersionExpiration")
    s3_rule = {
        "ID": rule.get("Id", f"rule-{number}"),
        "Status": rule["Status"],
        "Filter": {"Prefix": rule.get("Prefix", "")},
        **{name: rule[name] for name in copied if name in rule},
    }
    for name, (member, part) in _IN_DAYS.items():
        if name in rule:
            s3_rule[member] = {part: rule[name]}
    if "Transitions" in rule:
        s3_rule["Transitions"] = [
            {"StorageClass": each["StorageClass"], "Days": each["TransitionInDays"]}
            for each in rule["Transitions"]
        ]
    return s3_rule


def _logging(configuration: Properties) -> Any:
    return {
        "TargetBucket": configuration.get("DestinationBucketName"),
        "TargetPrefix": configuration.get("LogFilePrefix", ""),
    }


def _notifications(configuration: Properties) -> Any:
    """Turn EventBridge on or off.

    Queues, topics and functions are refused, because nothing would be delivered to them.
    """
    unknown = sorted(set(configuration) - {"EventBridgeConfiguration"})
    if unknown:
        raise ResourceError(
            f"Shoal's emulator does not emulate {unknown[0]} of buckets; EventBridgeConfiguration"
            " it does"
        )
    bridge = configuration.get("EventBridgeConfiguration", {"EventBridgeEnabled": False})
    is_on = as_bool(bridge.get("EventBridgeEnabled", True))
    return {"EventBridgeConfiguration": {}} if is_on else {}


def _canned(access_control: str) -> str:
    """Return `LogDeliveryWrite` as `log-delivery-write`."""
    return "".join(
        f"-{letter.lower()}" if letter.isupper() else letter for letter in access_control
    ).lstrip("-")


class Function(PlainType):
    """AWS::Lambda::Function. Inline source is zipped as `index.py` or `index.js`."""

    def converted(self, properties: Properties) -> Properties:
        code = properties.get("Code", {})
        if not isinstance(code.get("ZipFile"), str):
            return properties
        name = "index.js" if str(properties.get("Runtime")).startswith("nodejs") else "index.py"
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(zipfile.ZipInfo(name), code["ZipFile"])
        return {**properties, "Code": {"ZipFile": buffer.getvalue()}}


class ScalingPolicy(PlainType):
    """AWS::ApplicationAutoScaling::ScalingPolicy. ScalingTargetId joins a target's parts by `|`."""

    def converted(self, properties: Properties) -> Properties:
        if "ScalingTargetId" not in properties:
            return properties
        scope = ("ResourceId", "ScalableDimension", "ServiceNamespace")
        return {
            **properties,
            **dict(zip(scope, str(properties["ScalingTargetId"]).split("|"), strict=True)),
        }


class Pipeline(PlainType):
    """AWS::SageMaker::Pipeline. CloudFormation has Key and Version for ObjectKey and VersionId."""

    def converted(self, properties: Properties) -> Properties:
        definition = properties.get("PipelineDefinition", {})
        if not isinstance(definition, Mapping):
            return properties
        location = definition.get("PipelineDefinitionS3Location")
        renamed = {"Key": "ObjectKey", "Version": "VersionId"}
        return {
            **properties,
            "PipelineDefinition": definition.get("PipelineDefinitionBody"),
            "PipelineDefinitionS3Location": location
            and {renamed.get(key, key): each for key, each in location.items() if key != "ETag"},
        }


class ManagedPolicy(PlainType):
    """AWS::IAM::ManagedPolicy. Of its versions only the default one stays."""

    def set_one(self, request: Request, name: str) -> None:
        super().set_one(request, name)
        self._delete_old_versions(request)

    def _delete(self, request: Request) -> None:
        ignore_missing(lambda: self._delete_old_versions(request))
        super()._delete(request)

    def _delete_old_versions(self, request: Request) -> None:
        policy = {"PolicyArn": request.physical_id}
        for version in request.call("iam", "ListPolicyVersions", **policy)["Versions"]:
            if not version["IsDefaultVersion"]:
                version_id = version["VersionId"]
                request.call("iam", "DeletePolicyVersion", **policy, VersionId=version_id)


class VpcEndpoint(PlainType):
    """AWS::EC2::VPCEndpoint."""

    def _delete(self, request: Request) -> None:
        """Delete the endpoint, which moto would list for ever: with the state "deleted", or after
        a change of its route tables, whose routes moto misses, with "available".
        """
        delete = super()._delete
        ignore_missing(lambda: delete(request))
        endpoints = get_backend("ec2")[request.account][request.region].vpc_end_points
        endpoints.pop(request.physical_id, None)


def _permission(rule: Properties, peer: str, prefix: str) -> dict[str, Any]:
    """Return a rule of CloudFormation as an IpPermission of EC2."""
    sources = {
        "CidrIp": "IpRanges",
        "CidrIpv6": "Ipv6Ranges",
        peer: "UserIdGroupPairs",
        prefix: "PrefixListIds",
    }
    source = next((name for name in sources if rule.get(name)), None)
    if source is None:
        raise ResourceError(f"a security group rule needs {', '.join(sources)}")
    member = {peer: "GroupId", prefix: "PrefixListId"}.get(source, source)
    described = {"Description": rule["Description"]} if rule.get("Description") else {}
    return {
        "IpProtocol": str(rule["IpProtocol"]),
        **{name: rule[name] for name in ("FromPort", "ToPort") if name in rule},
        sources[source]: [{member: rule[source], **described}],
    }


_PERMISSIONS = {
    "Ingress": partial(_permission, peer="SourceSecurityGroupId", prefix="SourcePrefixListId"),
    "Egress": partial(
        _permission, peer="DestinationSecurityGroupId", prefix="DestinationPrefixListId"
    ),
}


class SecurityGroup(PlainType):
    """AWS::EC2::SecurityGroup. Rules are inline, or resources of their own, as a group that names
    itself needs them. No packet flows anywhere.
    """

    def converted(self, properties: Properties) -> Properties:
        rules = {
            f"SecurityGroup{direction}": convert for direction, convert in _PERMISSIONS.items()
        }
        return {
            name: [rules[name](rule) for rule in value] if name in rules else value
            for name, value in properties.items()
        }


class GroupRule(PlainType):
    """AWS::EC2::SecurityGroupIngress and Egress."""

    def converted(self, properties: Properties) -> Properties:
        convert = _PERMISSIONS[self.type_name.removeprefix("AWS::EC2::SecurityGroup")]
        return properties and {
            "GroupId": properties["GroupId"],
            "IpPermissions": [convert(properties)],
        }


CONVERTED: Mapping[str, type[PlainType]] = {
    "AWS::EC2::SecurityGroup": SecurityGroup,
    "AWS::EC2::SecurityGroupEgress": GroupRule,
    "AWS::EC2::SecurityGroupIngress": GroupRule,
    "AWS::EC2::VPCEndpoint": VpcEndpoint,
    "AWS::IAM::ManagedPolicy": ManagedPolicy,
    "AWS::S3::Bucket": Bucket,
    "AWS::Lambda::Function": Function,
    "AWS::ApplicationAutoScaling::ScalingPolicy": ScalingPolicy,
    "AWS::SageMaker::Pipeline": Pipeline,
}
