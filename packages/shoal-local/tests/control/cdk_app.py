"""A CDK app with one of everything that the control plane deploys, in two variants: `before` and
`after`. With the argument `custom` it has a stack that needs the CDK's own functions instead.
"""

from __future__ import annotations

import json
import sys

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_ssm as ssm
from aws_cdk import custom_resources as custom
from constructs import Construct

PREFIX = "checked"
ENVIRONMENT = cdk.Environment(account="111122223333", region="us-east-1")
RESPOND = """
import json, urllib.request
def handler(event, context):
    body = {"Status": "SUCCESS", "PhysicalResourceId": "custom", "StackId": event["StackId"], "RequestId": event["RequestId"],
            "LogicalResourceId": event["LogicalResourceId"], "Data": {"Answer": "forty-two"}}
    urllib.request.urlopen(urllib.request.Request(event["ResponseURL"], json.dumps(body).encode(), method="PUT"))
"""  # noqa: E501


class Network(cdk.Stack):
    """A network with a security group that refers to itself in both directions."""

    def __init__(self, scope: Construct) -> None:
        super().__init__(scope, "network", stack_name=f"{PREFIX}-network", env=ENVIRONMENT)
        private = ec2.SubnetConfiguration(
            name="private", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED
        )
        public = ec2.SubnetConfiguration(name="public", subnet_type=ec2.SubnetType.PUBLIC)
        zones = ["us-east-1a", "us-east-1b"]
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            availability_zones=zones,
            nat_gateways=1,
            subnet_configuration=[private, public],
            restrict_default_security_group=False,
        )
        self.vpc.add_flow_log("Flow")
        self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        self.vpc.add_interface_endpoint(
            "Logs", service=ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS
        )
        # Its own description would have the stage's name in it, and another one makes another
        # group: refused, because its id is imported.
        self.group = ec2.SecurityGroup(
            self, "Group", vpc=self.vpc, allow_all_outbound=False, description="Checked"
        )
        self.group.add_ingress_rule(self.group, ec2.Port.all_traffic())
        self.group.add_egress_rule(self.group, ec2.Port.all_traffic())


class Data(cdk.Stack):
    """Keys, buckets, parameters and a custom resource."""

    def __init__(self, scope: Construct, group: ec2.ISecurityGroup) -> None:
        super().__init__(scope, "data", stack_name=f"{PREFIX}-data", env=ENVIRONMENT)
        self.key = kms.Key(
            self,
            "Key",
            enable_key_rotation=True,
            removal_policy=cdk.RemovalPolicy.DESTROY,
            alias=f"{PREFIX}/data",
        )
        access = s3.Bucket(self, "Access", removal_policy=cdk.RemovalPolicy.DESTROY)
        s3.Bucket(
            self,
            "Bucket",
            bucket_name=f"{PREFIX}-data",
            encryption=s3.BucketEncryption.KMS,
            encryption_key=self.key,
            enforce_ssl=True,
            versioned=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            server_access_logs_bucket=access,
            removal_policy=cdk.RemovalPolicy.DESTROY,
            lifecycle_rules=[
                s3.LifecycleRule(abort_incomplete_multipart_upload_after=cdk.Duration.days(7))
            ],
        )
        ssm.StringParameter(
            self, "Group", parameter_name=f"/{PREFIX}/group", string_value=group.security_group_id
        )
        respond = lambda_.Function(
            self,
            "Respond",
            runtime=lambda_.Runtime.PYTHON_3_12,
            handler="index.handler",
            code=lambda_.Code.from_inline(RESPOND),
        )
        custom = cdk.CustomResource(
            self, "Custom", service_token=respond.function_arn, resource_type="Custom::Question"
        )
        cdk.CfnOutput(self, "Answer", value=custom.get_att_string("Answer"))


class Compute(cdk.Stack):
    """Functions, queues, rules, alarms and a pipeline.

    `variant` is part of everything that an update changes.
    """

    def __init__(self, scope: Construct, key: kms.IKey, variant: str) -> None:
        super().__init__(scope, "compute", stack_name=f"{PREFIX}-compute", env=ENVIRONMENT)
        dead = sqs.Queue(self, "Dead")
        visible = cdk.Duration.seconds(60)
        queue = sqs.Queue(
            self,
            "Queue",
            visibility_timeout=visible,
            dead_letter_queue=sqs.DeadLetterQueue(queue=dead, max_receive_count=3),
        )
        worker = lambda_.Function(
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
            log_group=logs.LogGroup(
                self,
                "Log",
                removal_policy=cdk.RemovalPolicy.DESTROY,
                retention=logs.RetentionDays.ONE_WEEK,
            ),
        )
        # SqsEventSource is named after the stage, and AWS refuses a second mapping of the queue.
        queue.grant_consume_messages(worker)
        worker.add_event_source_mapping(
            "Mapping", event_source_arn=queue.queue_arn, report_batch_item_failures=True
        )
        pattern = events.EventPattern(source=["aws.sagemaker"], detail={"pipelineArn": [variant]})
        rule = events.Rule(self, "Rule", rule_name=f"{PREFIX}-rule", event_pattern=pattern)
        rule.add_target(targets.SqsQueue(queue))
        rule.add_target(targets.LambdaFunction(worker))
        alarm = cloudwatch.Alarm(
            self,
            "Alarm",
            metric=dead.metric_approximate_number_of_messages_visible(),
            threshold=1,
            evaluation_periods=1,
        )
        sns.Topic(self, "Alerts", display_name=variant)
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=f"{PREFIX}-{variant}",
            widgets=[[cloudwatch.AlarmWidget(alarm=alarm, title="dead")]],
        )
        self._pipeline(key, variant)

    def _pipeline(self, key: kms.IKey, variant: str) -> None:
        role = iam.Role(
            self,
            "Role",
            role_name=f"{PREFIX}-role",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
        )
        role.add_to_policy(iam.PolicyStatement(actions=["kms:Decrypt"], resources=[key.key_arn]))
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
        sagemaker.CfnModelPackageGroup(self, "Models", model_package_group_name=f"{PREFIX}-models")


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
        network = Network(stage)
        data = Data(stage, network.group)
        Compute(stage, data.key, variant)
    app.synth()


if __name__ == "__main__":
    main(sys.argv[1:] == ["custom"])
