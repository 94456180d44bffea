"""The resource types that are emulated, by name."""

from __future__ import annotations

from shoal_local.control.cloudformation.resources.access import iam
from shoal_local.control.cloudformation.resources.base import ResourceType
from shoal_local.control.cloudformation.resources.compute import codebuild, lambda_functions
from shoal_local.control.cloudformation.resources.data import ecr, kms, s3
from shoal_local.control.cloudformation.resources.messages import events, scheduler, sns, sqs
from shoal_local.control.cloudformation.resources.network import ec2, fsx, security_groups
from shoal_local.control.cloudformation.resources.serving import (
    autoscaling,
    budgets,
    cdk_metadata,
    cloudwatch,
    sagemaker,
    ssm,
)

MODULES = (
    iam,
    s3,
    ec2,
    security_groups,
    kms,
    sqs,
    sns,
    events,
    cloudwatch,
    ssm,
    ecr,
    cdk_metadata,
    lambda_functions,
    codebuild,
    fsx,
    budgets,
    scheduler,
    sagemaker,
    autoscaling,
)
TYPES: dict[str, ResourceType] = {
    kind.type_name: kind for module in MODULES for kind in module.TYPES
}
