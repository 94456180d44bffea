"""Requests about what there is not, or with values on which moto fails: each is refused in AWS's
words before moto gets it.

Codes: the API references of the operations. Found by `local/tests/bad_input/test_moto_services.py`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from moto.ec2.models import ec2_backends
from moto.ecr.models import ecr_backends
from moto.kms.models import kms_backends
from moto.s3.models import s3_backends
from moto.utilities.utils import get_partition

from shoal_local.control.policies import mistake_in
from shoal_local.control.protocol import ApiCall
from shoal_local.errors import AwsError

_MALFORMED = (
    "The XML you provided was not well-formed or did not validate against our published schema"
)
_MOST_KEYS = 2**31
_CANNED = (
    "private",
    "public-read",
    "public-read-write",
    "authenticated-read",
    "bucket-owner-read",
    "bucket-owner-full-control",
    "aws-exec-read",
    "log-delivery-write",
)
_LONGEST_PERIOD_S = 86_400
_RULE_FILTERS = ("group-id", "security-group-rule-id", "tag-key")
Guard = Callable[[ApiCall], None]


def alias(call: ApiCall) -> None:
    """moto fails on an alias of KMS that there is not.

    The error: KMS API reference, DescribeKey; its words: as people quote them.
    """
    named = str(call.parameters.get("KeyId", ""))
    found = (
        f"alias/{named.partition(':alias/')[2]}"
        if named.startswith("arn:") and ":alias/" in named
        else named
    )
    if found.startswith("alias/") and not kms_backends[call.account][
        call.region
    ].get_key_id_from_alias(found):
        raise AwsError(
            "NotFoundException",
            f"Alias arn:aws:kms:{call.region}:{call.account}:{found} is not found.",
        )


def _key(call: ApiCall) -> None:
    """Of a grant. A token of one names no key."""
    alias(call)
    named = str(call.parameters.get("KeyId", ""))
    backend = kms_backends[call.account][call.region]
    id_ = (
        backend.get_key_id_from_alias(named)
        if named.startswith("alias/")
        else named.rpartition("/")[2]
    )
    if "GrantToken" not in call.parameters and id_ not in backend.keys:
        raise AwsError("NotFoundException", f"Key '{named}' does not exist")


def _policy(call: ApiCall) -> None:
    try:
        document = json.loads(call.parameters["Policy"])
    except (ValueError, RecursionError):
        document = None
    if mistake := mistake_in(document):
        raise AwsError(
            "MalformedPolicy",
            f"Policies must be valid JSON and the first byte must be '{{'; here {mistake}.",
        )


def _queue_policy(call: ApiCall) -> None:
    given = (call.parameters.get("Attributes") or {}).get("Policy")
    if not given:
        return
    try:
        mistake = mistake_in(json.loads(given))
    except (ValueError, RecursionError) as broken:
        mistake = str(broken)
    if mistake:
        raise AwsError(
            "InvalidAttributeValue", f"Invalid value for the parameter Policy: {mistake}"
        )


def _acl(call: ApiCall) -> None:
    """moto fails on one without an owner, too, and on a grant to nobody."""
    grants = {
        name: value
        for name, value in call.parameters.items()
        if name == "ACL" or name.startswith("Grant")
    }
    _grants(call)
    if not grants and not (call.parameters.get("AccessControlPolicy") or {}).get("Owner"):
        raise AwsError(
            "MissingSecurityHeader", "Your request was missing a required header: x-amz-acl"
        )


def _grants(call: ApiCall) -> None:
    """An ACL is one of S3's; each grant of a header names a kind of grantee and who it is:
    id="...", uri="..." or emailAddress="...".
    """
    for name, value in call.parameters.items():
        if name == "ACL" and value not in _CANNED:
            raise AwsError(
                "InvalidArgument",
                f"Argument format not recognized: the ACL {value!r} is none of"
                f" {', '.join(_CANNED)}",
            )
        if name.startswith("Grant") and not all(
            re.match(r'[^=]+="?[^"]+"?', part.strip()) for part in str(value).split(",")
        ):
            raise AwsError("InvalidArgument", "Argument format not recognized")


def _keys(call: ApiCall) -> None:
    """The words: S3's, as people quote them."""
    if not 0 <= call.parameters.get("MaxKeys", 0) < _MOST_KEYS:
        raise AwsError(
            "InvalidArgument", f"Argument maxKeys must be an integer between 0 and {_MOST_KEYS - 1}"
        )


def _ownership(call: ApiCall) -> None:
    if len(call.parameters["OwnershipControls"].get("Rules") or []) != 1:
        raise AwsError("MalformedXML", _MALFORMED)


def _encryption(call: ApiCall) -> None:
    rules = call.parameters["ServerSideEncryptionConfiguration"].get("Rules") or []
    if len(rules) != 1 or "ApplyServerSideEncryptionByDefault" not in rules[0]:
        raise AwsError("MalformedXML", _MALFORMED)


def _lifecycle(call: ApiCall) -> None:
    if not call.parameters.get("LifecycleConfiguration"):
        raise AwsError("MalformedXML", _MALFORMED)


def _upload(call: ApiCall) -> None:
    bucket = s3_backends[call.account][get_partition(call.region)].buckets.get(
        call.parameters["Bucket"]
    )
    if bucket is None:
        raise AwsError("NoSuchBucket", "The specified bucket does not exist", 404)
    if call.parameters["UploadId"] not in bucket.multiparts:
        raise AwsError(
            "NoSuchUpload",
            "The specified upload does not exist. The upload ID may be invalid, aborted, or"
            " completed.",
            404,
        )


def _nat_gateway(call: ApiCall) -> None:
    id_ = call.parameters["NatGatewayId"]
    if id_ not in ec2_backends[call.account][call.region].nat_gateways:
        raise AwsError("NatGatewayNotFound", f"The Nat Gateway {id_} was not found")


def _rule_filters(call: ApiCall) -> None:
    """Those of DescribeSecurityGroupRules, EC2 API reference."""
    for each in call.parameters.get("Filters") or []:
        name = each.get("Name")
        if name not in _RULE_FILTERS and not str(name).startswith("tag:"):
            raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")


def _tags_of_one(call: ApiCall) -> None:
    """moto fails on tags for several kinds of resources.

    The operation makes one; the error: EC2's, as people quote it.
    """
    kinds = [each.get("ResourceType") for each in call.parameters.get("TagSpecifications") or []]
    if len(kinds) > 1:
        raise AwsError(
            "InvalidParameterValue",
            f"'{kinds[1]}' is not a valid taggable resource type for this operation.",
        )


def _group(call: ApiCall) -> None:
    if "GroupName" in call.parameters:
        raise AwsError(
            "InvalidParameterValue",
            "Shoal's emulator deletes security groups by GroupId only, not by GroupName",
        )


def _image(call: ApiCall) -> None:
    name = call.parameters["repositoryName"]
    if name not in ecr_backends[call.account][call.region].repositories:
        where = f"in the registry with id '{call.account}'"
        raise AwsError(
            "RepositoryNotFoundException",
            f"The repository with name '{name}' does not exist {where}",
        )
    try:
        manifest = json.loads(call.parameters["imageManifest"])
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict):
        said = (
            "Invalid parameter at 'ImageManifest' failed to satisfy constraint: 'Invalid JSON"
            " syntax'"
        )
        raise AwsError("InvalidParameterException", said)
    digest = hashlib.sha256(
        call.parameters["imageManifest"].encode(errors="surrogatepass")
    ).hexdigest()
    if call.parameters.get("imageDigest") not in {None, f"sha256:{digest}"}:
        said = (
            "The specified image digest does not match the digest that Amazon ECR calculated for"
            " the image."
        )
        raise AwsError("ImageDigestDoesNotMatchException", said)


def _registries(call: ApiCall) -> None:
    for id_ in call.parameters.get("registryIds") or []:
        if not re.fullmatch(r"[0-9]{12}", id_):
            raise AwsError(
                "InvalidParameterException",
                "Invalid parameter at 'registryIds' failed to satisfy constraint: '[0-9]{12}'",
            )


def _marker(call: ApiCall) -> None:
    """moto's markers are numbers."""
    if not (call.parameters.get("Marker") or "0").isdecimal():
        raise AwsError("ValidationError", "Invalid Marker.")


def _topic(call: ApiCall) -> None:
    for name in ("TopicArn", "TargetArn"):
        if call.parameters.get(name, ":::::").count(":") != 5:
            raise AwsError("InvalidParameter", f"Invalid parameter: {name}")
    if call.operation == "Publish" and not {"TopicArn", "TargetArn", "PhoneNumber"} & set(
        call.parameters
    ):
        raise AwsError(
            "InvalidParameter",
            "Invalid parameter: TopicArn or TargetArn Reason: no value for required parameter",
        )
    _page_of_topics(call)


def _page_of_topics(call: ApiCall) -> None:
    """moto's tokens are numbers."""
    if not (call.parameters.get("NextToken") or "0").isdecimal():
        raise AwsError("InvalidParameter", "Invalid parameter: NextToken")


def _queries(call: ApiCall) -> None:
    for query in [
        *(call.parameters.get("MetricDataQueries") or []),
        *(call.parameters.get("Metrics") or []),
    ]:
        if "MetricStat" in query:
            _require(query["MetricStat"].get("Metric", {}), "Namespace", "MetricName")


def _statistics(call: ApiCall) -> None:
    """A period is a day at most: CloudWatch user guide, "Metrics concepts"."""
    if call.parameters["Period"] > _LONGEST_PERIOD_S:
        raise AwsError(
            "InvalidParameterValue",
            f"The value for parameter Period must be at most {_LONGEST_PERIOD_S}",
        )


def _alarm(call: ApiCall) -> None:
    """On a metric, or on expressions of several."""
    _queries(call)
    given = call.parameters
    _require(given, *(("Namespace", "Period") if "MetricName" in given else ("Metrics",)))
    if "ThresholdMetricId" not in given:
        _require(given, "Threshold")


def _require(given: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if given.get(name) is None:
            raise AwsError("ValidationError", f"The parameter {name} is required.")


_OF_A_KEY = (
    "Decrypt DescribeKey DisableKey DisableKeyRotation EnableKey EnableKeyRotation Encrypt"
    " GenerateDataKey"
)
_OF_A_TOPIC = (
    "AddPermission DeleteTopic GetTopicAttributes ListSubscriptionsByTopic Publish RemovePermission"
    " SetTopicAttributes"
)
_LISTED = """AccessKeys AccountAliases AttachedRolePolicies AttachedUserPolicies EntitiesForPolicy InstanceProfilesForRole Policies
PolicyVersions RolePolicies RoleTags Roles UserPolicies Users"""  # noqa: E501
GUARDS: Mapping[str, Mapping[str, Guard]] = {
    "kms": (
        dict.fromkeys(
            f"{_OF_A_KEY} GetKeyPolicy GetKeyRotationStatus PutKeyPolicy ScheduleKeyDeletion".split(),  # noqa: E501
            alias,
        )
        | dict.fromkeys(("CreateGrant", "ListGrants", "RetireGrant", "RevokeGrant"), _key)
    ),
    "s3": (
        {
            "PutBucketPolicy": _policy,
            "PutBucketAcl": _acl,
            "PutBucketOwnershipControls": _ownership,
            "PutBucketEncryption": _encryption,
            "PutBucketLifecycleConfiguration": _lifecycle,
        }
        | dict.fromkeys(
            ("CopyObject", "CreateBucket", "CreateMultipartUpload", "PutObject", "PutObjectAcl"),
            _grants,
        )
        | dict.fromkeys(("ListObjects", "ListObjectsV2", "ListObjectVersions"), _keys)
        | dict.fromkeys(
            ("AbortMultipartUpload", "CompleteMultipartUpload", "ListParts", "UploadPart"), _upload
        )
    ),
    "ec2": (
        {
            "DeleteNatGateway": _nat_gateway,
            "DeleteSecurityGroup": _group,
            "DescribeSecurityGroupRules": _rule_filters,
        }
        | dict.fromkeys(
            ("AllocateAddress", "CreateNatGateway", "CreateNetworkInterface", "CreateVpcEndpoint"),
            _tags_of_one,
        )
    ),
    "ecr": {"GetAuthorizationToken": _registries, "PutImage": _image},
    "iam": dict.fromkeys((f"List{what}" for what in _LISTED.split()), _marker),
    "sns": (
        dict.fromkeys(_OF_A_TOPIC.split(), _topic)
        | dict.fromkeys(("ListSubscriptions", "ListTopics"), _page_of_topics)
    ),
    "sqs": dict.fromkeys(("CreateQueue", "SetQueueAttributes"), _queue_policy),
    "cloudwatch": {
        "GetMetricData": _queries,
        "GetMetricStatistics": _statistics,
        "PutMetricAlarm": _alarm,
    },
}
