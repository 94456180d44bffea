"""The resource types that are emulated, by name."""

from __future__ import annotations

from shoal_local.control.cloudformation.resources import (
    autoscaling,
    budgets,
    cdk_metadata,
    cloudwatch,
    codebuild,
    ec2,
    ecr,
    events,
    fsx,
    iam,
    kms,
    lambda_functions,
    s3,
    sagemaker,
    scheduler,
    security_groups,
    sns,
    sqs,
    ssm,
)
from shoal_local.control.cloudformation.resources.base import ResourceType

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
