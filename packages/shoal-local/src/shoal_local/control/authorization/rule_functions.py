"""The input of a rule (one API call, and what the account knows about the resources that it names),
and JMESPath functions for the expressions of rules: names, ARNs and keys that a request does not
spell out.

A public method of RuleInput is a function of the same name. A parameter that a request does not
have is None; so is the result then, unless the docstring says otherwise.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shoal_local.control.authorization.account import AccountState, copied_object
from shoal_local.control.http.protocol import ANY, ApiCall, ContextValue, account_of
from shoal_local.control.identity.identity import role_named

EC2_KINDS = {
    "acl": "network-acl",
    "dopt": "dhcp-options",
    "eipalloc": "elastic-ip",
    "eni": "network-interface",
    "fl": "vpc-flow-log",
    "igw": "internet-gateway",
    "nat": "natgateway",
    "rtb": "route-table",
    "sg": "security-group",
    "sgr": "security-group-rule",
    "vpce": "vpc-endpoint",
}
"""Kind of resource by the prefix of its id, where the two differ."""


@dataclass(frozen=True)
class RuleInput:
    """One call, with the resources of the account that it is in.

    Functions take any arguments: a service refuses malformed ones later.
    """

    call: ApiCall
    resources: AccountState

    @property
    def account(self) -> str:
        return account_of(self.call.caller_arn)

    @property
    def region(self) -> str:
        return self.call.region

    def arn(self, service: str, resource: str) -> str:
        return f"arn:aws:{service}:{self.region}:{self.account}:{resource}"

    def request_tags(self) -> dict[str, ContextValue]:
        """Return `aws:RequestTag/...` and `aws:TagKeys` of a call that tags a resource."""
        tags = dict(_tags_in(self.call.parameters))
        return {
            **{f"aws:RequestTag/{key}": value for key, value in tags.items()},
            **({"aws:TagKeys": list(tags)} if tags else {}),
        }

    def resource_tags(self, arn: str) -> dict[str, ContextValue]:
        """Return `aws:ResourceTag/...` of a resource that exists."""
        return {f"aws:ResourceTag/{key}": value for key, value in self.resources.tags(arn).items()}

    def via_service(self, service: str) -> str:
        """Return the value of `kms:ViaService` for a service that uses a key for a caller."""
        return f"{service}.{self.region}.amazonaws.com"

    def key(self, name: Any) -> str | None:
        """Return the ARN of the KMS key with this id, ARN or alias."""
        return self.resources.key_arn(str(name)) if name else None

    def secret_arn(self, name: Any) -> str | None:
        """Return the ARN of a secret; of one that does not exist, as it could become."""
        if not name:
            return None
        text = str(name)
        ended = text if text.startswith("arn:") else f"secret:{text}-AbCdEf"
        return self.resources.secret_arn(text) or (
            ended if ended == text else self.arn("secretsmanager", ended)
        )

    def stack_arn(self, name: Any) -> str | None:
        """Return the ARN of a stack; it ends in an id that the stack's name does not tell."""
        if not name or str(name).startswith("arn:"):
            return str(name) if name else None
        return self.arn("cloudformation", f"stack/{name}/*")

    def function_arn(self, name: Any) -> str:
        """Return the ARN of a function by its name, `account:name` or ARN, of any without one."""
        text = str(name or ANY)
        if text.startswith("arn:"):
            return text
        return self.arn("lambda", f"function:{text.rpartition(':')[2]}")

    def topic_arn(self, subscription: Any) -> str | None:
        """Return the ARN of a subscription's topic."""
        return str(subscription or "").rpartition(":")[0] or None

    def role_path(self, name: Any) -> str:
        """Return the path of the role of this name; / for a new one."""
        role = role_named(self.resources.account, str(name))
        return str(role.path) if role else "/"

    def without_scheme(self, url: Any) -> str | None:
        return str(url).removeprefix("https://") if url else None

    def without_slash(self, path: Any) -> str | None:
        """Return the path without the slash that it begins with."""
        return str(path or "").lstrip("/") or None

    def queue_arn(self) -> str:
        """Return the ARN of a queue by its name, or its URL, which ends in account and name."""
        url_account = str(self.call.parameters.get("QueueUrl") or "").rpartition("/")[0]
        owner = self.call.parameters.get("QueueOwnerAWSAccountId") or url_account.rpartition("/")[2]
        account = owner if owner.isdigit() else self.account
        return f"arn:aws:sqs:{self.region}:{account}:{self._queue()}"

    def queue_key(self) -> str | None:
        """Return the ARN of the key that encrypts the queue."""
        return self.resources.key_of_queue(self._queue())

    def _queue(self) -> str:
        url = str(self.call.parameters.get("QueueUrl") or ANY)
        return str(self.call.parameters.get("QueueName") or url.rpartition("/")[2])

    def network_arn(self, id_: Any) -> str:
        """Return the ARN of a resource of EC2 by its id."""
        prefix = str(id_).rpartition("-")[0]
        return self.arn("ec2", f"{EC2_KINDS.get(prefix, prefix)}/{id_}")

    def vpc_arn(self, id_: Any) -> str | None:
        """Return the ARN of the VPC of a subnet, security group or route table that exists."""
        vpc = self.resources.vpc_of(str(id_))
        return self.arn("ec2", f"vpc/{vpc}") if vpc else None

    def object_key(self, bucket: Any, key: Any) -> str | None:
        """Return the ARN of the KMS key that encrypts an object."""
        return self.resources.key_of_object(str(bucket), str(key))

    def upload_key(self) -> str | None:
        """Return the ARN of the KMS key that encrypts what the call uploads."""
        if key := self.call.parameters.get("SSEKMSKeyId"):
            return self.resources.key_arn(str(key))
        if self.call.parameters.get("ServerSideEncryption") == "AES256":
            return None
        return self.resources.key_of_bucket(str(self.call.parameters.get("Bucket")))

    def encryption_context(self, bucket: Any, key: Any) -> str:
        """Return S3's encryption context: the ARN of the object, or of a bucket with a key."""
        arn = f"arn:aws:s3:::{bucket}"
        return arn if self.resources.has_bucket_key(str(bucket)) else f"{arn}/{key}"

    def copy_source(self) -> Mapping[str, Any]:
        """Return `Bucket`, `Key` and perhaps `VersionId` of the object that the call copies."""
        bucket, key, version = copied_object(self.call)
        return {"Bucket": bucket, "Key": key} | ({"VersionId": version} if version else {})

    def sagemaker_arn(self, kind: Any, name: Any) -> str:
        """Return a resource's ARN by its name, which is lower-cased, or ARN; else of any."""
        text = str(name or ANY)
        if text.startswith("arn:"):
            return text
        return self.arn("sagemaker", f"{kind}/{text.lower()}")

    def package_versions(self, group: Any) -> str | None:
        """Return the ARN of every version of a model package group."""
        if not group:
            return None
        arn = self.sagemaker_arn("model-package-group", group)
        return f"{arn.replace(':model-package-group/', ':model-package/')}/*"

    def endpoint_key(self, config: Any) -> str | None:
        """Return the ARN of the KMS key for the volumes of an endpoint with this configuration."""
        return self.resources.key_of_endpoint_config(str(config))

    def is_scaled(self, endpoint: Any) -> bool:
        """Return whether Application Auto Scaling has a target of the endpoint."""
        name = self.sagemaker_arn("endpoint", endpoint).rpartition("/")[2]
        return self.resources.is_scaled(name)

    def training_file_system(self) -> Mapping[str, Any]:
        """Return the file system of a training or tuning job's channels.

        Each condition key has one value. Of several channels it is that of one that may write, so
        that it does not hide behind a channel that may not. What SageMaker sends for channels that
        differ is not documented.
        """
        definition = self.call.parameters.get("TrainingJobDefinition") or self.call.parameters
        channels = definition.get("InputDataConfig") or []
        sources = [
            channel.get("DataSource", {}).get("FileSystemDataSource") for channel in channels
        ]
        return min(
            filter(None, sources),
            key=lambda source: source.get("FileSystemAccessMode") != "rw",
            default={},
        )


def _tags_in(parameters: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the tags of a request.

    They are a list of Key and Value (KMS: TagKey and TagValue) or a map, under `Tags` or `tags`.
    EC2 has them in TagSpecifications.
    """
    for name in ("Tags", "tags"):
        yield from _pairs(parameters.get(name))
    for specification in parameters.get("TagSpecifications") or []:
        yield from _pairs(specification.get("Tags"))


def _pairs(tags: Any) -> Iterator[tuple[str, str]]:
    if isinstance(tags, Mapping):
        tags = tags.get("TagSet") or [{"Key": key, "Value": value} for key, value in tags.items()]
    # A request that removes tags names their keys only.
    for tag in (each for each in tags or [] if isinstance(each, Mapping)):
        pair = {str(name).lower().removeprefix("tag"): value for name, value in tag.items()}
        if "key" in pair:
            yield str(pair["key"]), str(pair.get("value", ""))
