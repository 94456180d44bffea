"""A CDK app whose stack needs the CDK's own functions, which are in Node.js."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import custom_resources as custom

app = cdk.App(context={"@aws-cdk/customresources:installLatestAwsSdkDefault": True})
stack = cdk.Stack(app, "custom", env=cdk.Environment(account="111122223333", region="us-east-1"))
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
app.synth()
