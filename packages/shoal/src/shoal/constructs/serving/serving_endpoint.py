"""The serving endpoint, updated by blue/green deployments, and its autoscaling.

Sources: SageMaker API reference, DeploymentConfig and UpdateEndpoint; developer guide, "Blue/Green
Deployments", "Automatically scale Amazon SageMaker AI models".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from shoal.constructs.serving.served_model import VARIANT
from shoal.settings.names import Names
from shoal.settings.sections.serving import Autoscaling, Serving, TrafficType, timeout_s

# With autoscaling a deployment keeps the number of instances, and takes the rest from the new
# configuration.
_NOT_RETAINED = ("DesiredWeight", "DataCaptureConfig")
_SCALE_IN_COOLDOWN_S, _SCALE_OUT_COOLDOWN_S = 300, 60


class ServingEndpoint(Construct):
    """`endpoint` has its own name: callers know it, and no release changes it."""

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
        retained: dict[str, Any] = {}
        if settings.autoscaling:
            kind = sagemaker.CfnEndpoint.VariantPropertyProperty
            retained["retain_all_variant_properties"] = True
            retained["exclude_retained_variant_properties"] = [
                kind(variant_property_type=name) for name in _NOT_RETAINED
            ]
        self.endpoint = sagemaker.CfnEndpoint(
            self,
            "Endpoint",
            endpoint_name=names.serving_endpoint,
            endpoint_config_name=config_name,
            deployment_config=_deployment(settings, alarms),
            **retained,
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
