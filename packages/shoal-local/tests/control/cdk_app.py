"""A CDK app of one stack with what Shoal's own stacks lack: a network, and what needs the CDK's own
functions.
"""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import custom_resources as custom


def add_network(stack: cdk.Stack) -> None:
    """Add a network with a security group that refers to itself in both directions."""
    private = ec2.SubnetConfiguration(name="private", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
    public = ec2.SubnetConfiguration(name="public", subnet_type=ec2.SubnetType.PUBLIC)
    zones = ["us-east-1a", "us-east-1b"]
    vpc = ec2.Vpc(
        stack,
        "Vpc",
        availability_zones=zones,
        nat_gateways=1,
        subnet_configuration=[private, public],
        restrict_default_security_group=False,
    )
    vpc.add_flow_log("Flow")
    vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
    vpc.add_interface_endpoint("Logs", service=ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS)
    group = ec2.SecurityGroup(
        stack, "Group", vpc=vpc, allow_all_outbound=False, description="Checked"
    )
    group.add_ingress_rule(group, ec2.Port.all_traffic())
    group.add_egress_rule(group, ec2.Port.all_traffic())


def add_custom_resources(stack: cdk.Stack) -> None:
    """Add what needs the CDK's own functions, which are in Node.js."""
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


if __name__ == "__main__":
    app = cdk.App(context={"@aws-cdk/customresources:installLatestAwsSdkDefault": True})
    custom_stack = cdk.Stack(
        app, "custom", env=cdk.Environment(account="111122223333", region="us-east-1")
    )
    add_network(custom_stack)
    add_custom_resources(custom_stack)
    app.synth()
