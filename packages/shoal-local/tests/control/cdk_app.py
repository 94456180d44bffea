"""A CDK app with what Shoal's own stacks lack, in two variants: `before` and `after`. With the
argument `custom` it has a stack that needs the CDK's own functions instead.
"""

from __future__ import annotations

import json
import sys

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import custom_resources as custom
from constructs import Construct

PREFIX = "checked"
ENVIRONMENT = cdk.Environment(account="111122223333", region="us-east-1")


class Network(cdk.Stack):
    """A network with a security group that refers to itself in both directions."""

    def __init__(self, scope: Construct) -> None:
        super().__init__(scope, "network", stack_name=f"{PREFIX}-network", env=ENVIRONMENT)
        private = ec2.SubnetConfiguration(
            name="private", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED
        )
        public = ec2.SubnetConfiguration(name="public", subnet_type=ec2.SubnetType.PUBLIC)
        zones = ["us-east-1a", "us-east-1b"]
        vpc = ec2.Vpc(
            self,
            "Vpc",
            availability_zones=zones,
            nat_gateways=1,
            subnet_configuration=[private, public],
            restrict_default_security_group=False,
        )
        vpc.add_flow_log("Flow")
        vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        vpc.add_interface_endpoint(
            "Logs", service=ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS
        )
        group = ec2.SecurityGroup(
            self, "Group", vpc=vpc, allow_all_outbound=False, description="Checked"
        )
        group.add_ingress_rule(group, ec2.Port.all_traffic())
        group.add_egress_rule(group, ec2.Port.all_traffic())


class Compute(cdk.Stack):
    """A function and a pipeline with its role; `variant` is part of what an update changes."""

    def __init__(self, scope: Construct, variant: str) -> None:
        super().__init__(scope, "compute", stack_name=f"{PREFIX}-compute", env=ENVIRONMENT)
        lambda_.Function(
            self,
            "Worker",
            function_name=f"{PREFIX}-worker",
            runtime=lambda_.Runtime.PYTHON_3_12,
            handler="index.handler",
            code=lambda_.Code.from_inline(
                f"import os\ndef handler(event, context):\n    return '{variant} ' +"
                " os.environ['VARIANT']\n"
            ),
            environment={"VARIANT": variant},
        )
        role = iam.Role(
            self,
            "Role",
            role_name=f"{PREFIX}-role",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
        )
        role.add_to_policy(iam.PolicyStatement(actions=[f"s3:{variant}"], resources=["*"]))
        stop = {"Name": "Stop", "Type": "Fail", "Arguments": {"ErrorMessage": variant}}
        definition = {"Version": "2020-12-01", "Parameters": [], "Steps": [stop]}
        sagemaker.CfnPipeline(
            self,
            "Pipeline",
            pipeline_name=f"{PREFIX}-pipeline",
            role_arn=role.role_arn,
            pipeline_definition={"PipelineDefinitionBody": json.dumps(definition)},
        )


def add_custom_resources(app: cdk.App) -> None:
    """Add a stack that needs the CDK's own functions, which are in Node.js."""
    stack = cdk.Stack(app, "custom", env=ENVIRONMENT)
    bucket = s3.Bucket(
        stack,
        "Data",
        versioned=True,
        auto_delete_objects=True,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    # as iam.OpenIdConnectProvider of older releases: without a thumbprint
    iam.OpenIdConnectProvider(
        stack, "Provider", url="https://issuer.invalid", client_ids=["sts.amazonaws.com"]
    )
    call = custom.AwsSdkCall(
        service="S3",
        action="putObject",
        parameters={"Bucket": bucket.bucket_name, "Key": "of/the/sdk.txt", "Body": "written"},
        physical_resource_id=custom.PhysicalResourceId.of("object"),
    )
    custom.AwsCustomResource(
        stack,
        "Object",
        on_create=call,
        policy=custom.AwsCustomResourcePolicy.from_statements(
            [iam.PolicyStatement(actions=["s3:PutObject"], resources=[bucket.arn_for_objects("*")])]
        ),
    )
    logs.LogRetention(
        stack,
        "Retention",
        log_group_name="/of/a/function",
        retention=logs.RetentionDays.ONE_WEEK,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    function = lambda_.Function(
        stack,
        "Function",
        runtime=lambda_.Runtime.NODEJS_22_X,
        handler="index.handler",
        code=lambda_.Code.from_inline("exports.handler = async (event) => ({ got: event });"),
    )
    cdk.CfnOutput(stack, "Bucket", value=bucket.bucket_name)
    cdk.CfnOutput(stack, "FunctionName", value=function.function_name)


def main(custom_resources: bool) -> None:
    app = cdk.App(context={"@aws-cdk/customresources:installLatestAwsSdkDefault": True})
    if custom_resources:
        add_custom_resources(app)
        app.synth()
        return
    for variant in ("before", "after"):
        stage = cdk.Stage(app, variant)
        Network(stage)
        Compute(stage, variant)
    app.synth()


if __name__ == "__main__":
    main(sys.argv[1:] == ["custom"])
