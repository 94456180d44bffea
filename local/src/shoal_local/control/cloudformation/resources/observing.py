"""AWS::Logs, AWS::CloudWatch, AWS::SSM, AWS::ECR and AWS::CDK::Metadata.

Alarms are kept; `control.alarms` evaluates some.
"""

from __future__ import annotations

import json

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceType,
    gone_is_fine,
    names,
)

ALARM = (
    "ActionsEnabled AlarmActions AlarmDescription ComparisonOperator DatapointsToAlarm Dimensions"
    " EvaluateLowSampleCountPercentile EvaluationPeriods ExtendedStatistic InsufficientDataActions"
    " MetricName Metrics Namespace OKActions Period Statistic Threshold ThresholdMetricId"
    " TreatMissingData Unit"
)
PARAMETER = "Type Value Description AllowedPattern Tier DataType"


class LogGroup(ResourceType):
    type_name = "AWS::Logs::LogGroup"
    properties = names("LogGroupName RetentionInDays KmsKeyId LogGroupClass Tags")
    replaced_by = names("LogGroupName")

    def create(self, request: Request) -> Created:
        name = request.name("LogGroupName", 512)
        wanted = {"kmsKeyId": request["KmsKeyId"]} if request.get("KmsKeyId") else {}
        request.client("logs").create_log_group(logGroupName=name, tags=request.tag_map(), **wanted)
        self._retain(request, name)
        return Created(
            name, {"Arn": f"arn:aws:logs:{request.region}:{request.account}:log-group:{name}:*"}
        )

    def update(self, request: Request) -> Created:
        logs, name = request.client("logs"), request.physical_id
        self._retain(request, name)
        request.retag(
            lambda: logs.tag_log_group(logGroupName=name, tags=request.tag_map()),
            lambda keys: logs.untag_log_group(logGroupName=name, tags=keys),
        )
        return Created(name, request.attributes)

    def delete(self, request: Request) -> None:
        gone_is_fine(
            lambda: request.client("logs").delete_log_group(logGroupName=request.physical_id)
        )

    def _retain(self, request: Request, name: str) -> None:
        if request.get("RetentionInDays"):
            request.client("logs").put_retention_policy(
                logGroupName=name, retentionInDays=int(request["RetentionInDays"])
            )
        elif request.changed("RetentionInDays"):
            request.client("logs").delete_retention_policy(logGroupName=name)


class Alarm(ResourceType):
    type_name = "AWS::CloudWatch::Alarm"
    properties = names(f"AlarmName Tags {ALARM}")
    replaced_by = names("AlarmName")

    def create(self, request: Request) -> Created:
        name = request.name("AlarmName", 255)
        self._put(request, name)
        return Created(
            name, {"Arn": f"arn:aws:cloudwatch:{request.region}:{request.account}:alarm:{name}"}
        )

    def update(self, request: Request) -> Created:
        self._put(request, request.physical_id)
        cloudwatch, arn = request.client("cloudwatch"), request.attributes["Arn"]
        request.retag(
            lambda: cloudwatch.tag_resource(ResourceARN=arn, Tags=request.tags()),
            lambda keys: cloudwatch.untag_resource(ResourceARN=arn, TagKeys=keys),
        )
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        gone_is_fine(
            lambda: request.client("cloudwatch").delete_alarms(AlarmNames=[request.physical_id])
        )

    def _put(self, request: Request, name: str) -> None:
        request.client("cloudwatch").put_metric_alarm(
            AlarmName=name, **request.only(*ALARM.split()), Tags=request.tags()
        )


class Dashboard(ResourceType):
    """Its tags are taken and not kept: moto has none for dashboards."""

    type_name = "AWS::CloudWatch::Dashboard"
    properties = names("DashboardName DashboardBody Tags")
    replaced_by = names("DashboardName")

    def create(self, request: Request) -> Created:
        return self._put(request, request.name("DashboardName", 255))

    def update(self, request: Request) -> Created:
        return self._put(request, request.physical_id)

    def delete(self, request: Request) -> None:
        gone_is_fine(
            lambda: request.client("cloudwatch").delete_dashboards(
                DashboardNames=[request.physical_id]
            )
        )

    def _put(self, request: Request, name: str) -> Created:
        request.client("cloudwatch").put_dashboard(
            DashboardName=name, DashboardBody=request["DashboardBody"]
        )
        return Created(name)


class Parameter(ResourceType):
    type_name = "AWS::SSM::Parameter"
    properties = names(f"Name Tags {PARAMETER}")
    replaced_by = names("Name Type")

    def create(self, request: Request) -> Created:
        name = request.name("Name", 512)
        tags = {"Tags": request.tags()} if request.tags() else {}
        request.client("ssm").put_parameter(Name=name, **request.only(*PARAMETER.split()), **tags)
        return Created(name, request.only("Type", "Value"))

    def update(self, request: Request) -> Created:
        ssm, name = request.client("ssm"), request.physical_id
        ssm.put_parameter(Name=name, **request.only(*PARAMETER.split()), Overwrite=True)
        request.retag(
            lambda: ssm.add_tags_to_resource(
                ResourceType="Parameter", ResourceId=name, Tags=request.tags()
            ),
            lambda keys: ssm.remove_tags_from_resource(
                ResourceType="Parameter", ResourceId=name, TagKeys=keys
            ),
        )
        return Created(request.physical_id, request.only("Type", "Value"))

    def delete(self, request: Request) -> None:
        gone_is_fine(lambda: request.client("ssm").delete_parameter(Name=request.physical_id))


class Repository(ResourceType):
    type_name = "AWS::ECR::Repository"
    properties = names(
        "RepositoryName ImageScanningConfiguration ImageTagMutability LifecyclePolicy"
        " RepositoryPolicyText EncryptionConfiguration EmptyOnDelete Tags"
    )
    replaced_by = names("RepositoryName EncryptionConfiguration")

    def create(self, request: Request) -> Created:
        name = request.name("RepositoryName", 256, lower=True)
        wanted = request.only("ImageScanningConfiguration", "ImageTagMutability")
        encryption = {
            f"{key[0].lower()}{key[1:]}": value
            for key, value in request.get(
                "EncryptionConfiguration", {"EncryptionType": "AES256"}
            ).items()
        }
        repository = request.client("ecr").create_repository(
            repositoryName=name,
            encryptionConfiguration=encryption,
            tags=request.tags(),
            **lowered(wanted),
        )["repository"]
        self._policies(request, name)
        return Created(
            name, {"Arn": repository["repositoryArn"], "RepositoryUri": repository["repositoryUri"]}
        )

    def update(self, request: Request) -> Created:
        ecr, name = request.client("ecr"), request.physical_id
        if request.changed("ImageTagMutability"):
            ecr.put_image_tag_mutability(
                repositoryName=name, imageTagMutability=request.get("ImageTagMutability", "MUTABLE")
            )
        if request.changed("ImageScanningConfiguration"):
            scanning = lowered(
                {
                    "ImageScanningConfiguration": request.get(
                        "ImageScanningConfiguration", {"ScanOnPush": False}
                    )
                }
            )
            ecr.put_image_scanning_configuration(repositoryName=name, **scanning)
        self._policies(request, name)
        arn = request.attributes["Arn"]
        request.retag(
            lambda: ecr.tag_resource(resourceArn=arn, tags=request.tags()),
            lambda keys: ecr.untag_resource(resourceArn=arn, tagKeys=keys),
        )
        return Created(name, request.attributes)

    def delete(self, request: Request) -> None:
        force = str(request.get("EmptyOnDelete", "")).lower() == "true"
        gone_is_fine(
            lambda: request.client("ecr").delete_repository(
                repositoryName=request.physical_id, force=force
            )
        )

    def _policies(self, request: Request, name: str) -> None:
        ecr = request.client("ecr")
        lifecycle = request.get("LifecyclePolicy", {}).get("LifecyclePolicyText")
        if lifecycle and request.changed("LifecyclePolicy"):
            ecr.put_lifecycle_policy(repositoryName=name, lifecyclePolicyText=lifecycle)
        if request.get("RepositoryPolicyText") and request.changed("RepositoryPolicyText"):
            ecr.set_repository_policy(
                repositoryName=name, policyText=json.dumps(request["RepositoryPolicyText"])
            )


class CdkMetadata(ResourceType):
    """The CDK's usage report: a resource that is nothing, on AWS too."""

    type_name = "AWS::CDK::Metadata"
    properties = names("Analytics")

    def create(self, request: Request) -> Created:
        return Created(request.generated_name())

    def update(self, request: Request) -> Created:
        return Created(request.physical_id)

    def delete(self, request: Request) -> None:
        """Nothing was made."""


def lowered(properties: dict[str, object]) -> dict[str, object]:
    """Property names as the ECR API writes them, at every depth: scanOnPush."""
    return {
        f"{key[0].lower()}{key[1:]}": lowered(value) if isinstance(value, dict) else value
        for key, value in properties.items()
    }


TYPES: tuple[ResourceType, ...] = (
    LogGroup(),
    Alarm(),
    Dashboard(),
    Parameter(),
    Repository(),
    CdkMetadata(),
)
