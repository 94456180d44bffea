"""The serving endpoint, deployed blue/green: autoscaling, alarms, and proof of each release."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns
from constructs import Construct

from shoal.constructs.monitoring.alarms import Alarm, metric
from shoal.constructs.pipeline.pipeline_functions import packed_files
from shoal.constructs.python_function import PythonFunction
from shoal.constructs.served_model import VARIANT, ServedModel, allow_archive
from shoal.launch import tables
from shoal.settings.names import SERVING_PROOF, WORKLOAD_TAG, Names
from shoal.settings.sections.release import Release
from shoal.settings.sections.serving import Alarms, Autoscaling, Serving, TrafficType, timeout_s


class ServingAlarms(Construct):
    """`names` are of alarms that must exist before the endpoint, and not ring as it is deployed.

    They watch only the new fleet, by the dimension EndpointConfigName. If they watched the old one
    as well, a release that repairs what is live would be rolled back by what it repairs (SageMaker
    developer guide, "Auto-Rollback Configuration and Monitoring"). Metrics and units: "Amazon
    SageMaker AI metrics in Amazon CloudWatch". For errors each request sends 1 or 0, so their
    average is a rate.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        limits: Alarms,
        variant: str,
        config_name: str,
        topic: sns.ITopic,
    ) -> None:
        super().__init__(scope, construct_id)
        fleet = {
            "EndpointName": names.serving_endpoint,
            "VariantName": variant,
            "EndpointConfigName": config_name,
        }
        p99, rate = limits.p99_latency_ms, limits.error_rate_percent
        any_rate = limits.model_error_rate_percent
        slow = f"takes longer than {p99} ms for one request in a hundred"
        failing = f"answers more than {rate:g} % of the requests with 5XX"
        wrong = f"answers more than {any_rate:g} % with no 2XX"
        watched = (
            # ModelLatency is in microseconds.
            ("serving-latency", slow, "ModelLatency", "p99", p99 * 1000),
            ("serving-errors", failing, "Invocation5XXErrors", "Average", rate / 100),
            ("serving-model-errors", wrong, "InvocationModelErrors", "Average", any_rate / 100),
        )
        self.names = [names.alarm(purpose) for purpose, *_ in watched]
        for purpose, description, name, statistic, threshold in watched:
            alarm = Alarm(
                self,
                purpose,
                names=names,
                purpose=purpose,
                description=f"The endpoint {names.serving_endpoint} {description}.",
                metric=metric("AWS/SageMaker", name, fleet, statistic, minutes=1),
                threshold=threshold,
                periods=limits.minutes,
                comparison=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            )
            alarm.notify(topic)


# With autoscaling a deployment keeps the number of instances, and takes the rest from the new
# configuration.
_NOT_RETAINED = ("DesiredWeight", "DataCaptureConfig")
_SCALE_IN_COOLDOWN_S, _SCALE_OUT_COOLDOWN_S = 300, 60


class ServingEndpoint(Construct):
    """`endpoint` has its own name: callers know it, and no release changes it.

    Sources: SageMaker API reference, DeploymentConfig and UpdateEndpoint; developer guide,
    "Blue/Green Deployments", "Automatically scale Amazon SageMaker AI models".
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        settings: Serving,
        config_name: str,
        alarms: Sequence[str],
    ) -> None:
        super().__init__(scope, construct_id)
        kind = sagemaker.CfnEndpoint.VariantPropertyProperty
        left_out = [kind(variant_property_type=name) for name in _NOT_RETAINED]
        self.endpoint = sagemaker.CfnEndpoint(
            self,
            "Endpoint",
            endpoint_name=names.serving_endpoint,
            endpoint_config_name=config_name,
            deployment_config=_deployment(settings, alarms),
            retain_all_variant_properties=True if settings.autoscaling else None,
            exclude_retained_variant_properties=left_out if settings.autoscaling else None,
        )
        if settings.autoscaling:
            self._scale(names, settings.autoscaling)

    def _scale(self, names: Names, settings: Autoscaling) -> None:
        target = scaling.CfnScalableTarget(
            self,
            "Target",
            service_namespace="sagemaker",
            scalable_dimension="sagemaker:variant:DesiredInstanceCount",
            resource_id=f"endpoint/{names.serving_endpoint}/variant/{VARIANT}",
            min_capacity=settings.min,
            max_capacity=settings.max,
        )
        target.add_resource_dependency(self.endpoint)
        properties = scaling.CfnScalingPolicy
        scaling.CfnScalingPolicy(
            self,
            "Policy",
            policy_name=f"{names.serving_endpoint}-invocations",
            policy_type="TargetTrackingScaling",
            scaling_target_id=target.ref,
            target_tracking_scaling_policy_configuration=properties.TargetTrackingScalingPolicyConfigurationProperty(
                predefined_metric_specification=properties.PredefinedMetricSpecificationProperty(
                    predefined_metric_type="SageMakerVariantInvocationsPerInstance"
                ),
                target_value=settings.invocations_per_instance,
                scale_in_cooldown=_SCALE_IN_COOLDOWN_S,
                scale_out_cooldown=_SCALE_OUT_COOLDOWN_S,
            ),
        )


def _deployment(
    settings: Serving, alarms: Sequence[str]
) -> sagemaker.CfnEndpoint.DeploymentConfigProperty:
    properties, traffic = sagemaker.CfnEndpoint, settings.traffic
    size = properties.CapacitySizeProperty(type="CAPACITY_PERCENT", value=traffic.percent)
    at_once = traffic.type is TrafficType.ALL_AT_ONCE
    return properties.DeploymentConfigProperty(
        blue_green_update_policy=properties.BlueGreenUpdatePolicyProperty(
            traffic_routing_configuration=properties.TrafficRoutingConfigProperty(
                type=traffic.type.name,
                wait_interval_in_seconds=0 if at_once else traffic.wait_s,
                canary_size=size if traffic.type is TrafficType.CANARY else None,
                linear_step_size=size if traffic.type is TrafficType.LINEAR else None,
            ),
            termination_wait_in_seconds=settings.bake_s,
            maximum_execution_timeout_in_seconds=timeout_s(settings),
        ),
        auto_rollback_configuration=properties.AutoRollbackConfigProperty(
            alarms=[properties.AlarmProperty(alarm_name=name) for name in alarms]
        ),
    )


class ServingProof(Construct):
    """`resource` has the release among its properties, so that it runs again for every release.

    SageMaker's own rollback leaves an endpoint in service, with the old configuration: a deployment
    that only waits for "in service" takes a rollback for a success
    (hashicorp/terraform-provider-aws#48997).
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        requests: bytes,
        release: Release,
        served: ServedModel,
        key: kms.IKey,
    ) -> None:
        """`key` is the environment's own; `requests` is what
        shoal.constructs.pipeline.pipeline_functions returns.
        """
        super().__init__(scope, construct_id)
        self._names = names
        self.prover = PythonFunction(
            self,
            "Prover",
            names=names,
            purpose=SERVING_PROOF,
            files=packed_files(requests),
        )
        self._allow()
        allow_archive(self.prover.role, names, release, key)
        content = {"ContentSha256": release.content_sha256}
        self.resource = cdk.CustomResource(
            self,
            "Resource",
            resource_type="Custom::ServingProof",
            service_token=self.prover.function.function_arn,
            service_timeout=self.prover.answered_within,
            properties={
                "EndpointName": names.serving_endpoint,
                "EndpointConfigName": served.config.attr_endpoint_config_name,
                "ModelName": served.model.attr_model_name,
                "ImageDigest": release.image_digest,
                "ModelDataUrl": names.sealed_url(release),
                "ModelDataSha256": release.model_data_sha256,
                **(content if tables.runs_inference_script(release.image_uri) else {}),
            },
        )
        self.resource.node.add_dependency(self.prover)

    def _allow(self) -> None:
        names, environment = self._names, self._names.environment
        tags = {
            "aws:ResourceTag/shoal:project": environment.project,
            "aws:ResourceTag/shoal:environment": environment.name,
        }
        if environment.workloads:
            tags[f"aws:ResourceTag/{WORKLOAD_TAG}"] = names.prefix
        self.prover.role.allow_part(
            "serving-proof",
            endpoint=names.serving_endpoint_arn,
            tags=tags,
            stack=cdk.Stack.of(self).stack_name,
        )
