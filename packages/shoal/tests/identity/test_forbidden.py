"""What each role must not do, asked of a real evaluator: each question is an allowed one with one
change.

The policies are those of the synthesised templates;
packages/shoal/tests/end_to_end/test_identity.py asks about what an execution really does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from shoal.constructs.roles.guard_rails import ours
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal_local.control.authorization.evaluator import Evaluator
from shoal_local.control.http.iam_request import ContextValue, Question
from tests.identity.cases import Case, arn
from tests.identity.roles import Roles
from tests.identity.templates import ARNS, Templates
from tests.repository import ROOT

PREFIX = "shoal-mnist-dev-us-east-1-"
DATA, ARTIFACTS = (
    f"arn:aws:s3:::shoal-mnist-dev-{purpose}-111122223333-us-east-1"
    for purpose in ("data", "artifacts")
)
PROD_DATA = DATA.replace("-dev-", "-prod-")
SUBNET, HOSTING_SUBNET = (
    "subnet-NetworkTrainingSubnetDAD4EDA4",
    "subnet-NetworkHosting1SubnetFD49DB09",
)
GROUP, HOSTING_GROUP = "sg-SecurityGroupsTraining38268BDF", "sg-SecurityGroupsHosting43637477"
KEY = ARNS["AWS::KMS::Key"].format("StorageKeyBAA9457B")
OTHER_KEY = ARNS["AWS::KMS::Key"].format("00000000-0000-0000-0000-000000000000")


def role_arn(name: str) -> str:
    return f"arn:aws:iam::111122223333:role/{name}"


TRAIN = Question(
    "sagemaker:CreateTrainingJob",
    arn("sagemaker", "training-job/pipelines-abc-Train-xyz"),
    {
        "sagemaker:InstanceTypes": ["ml.p4d.24xlarge"],
        "sagemaker:VpcSubnets": [SUBNET],
        "sagemaker:VpcSecurityGroupIds": [GROUP],
        "sagemaker:MaxRuntimeInSeconds": "3600",
        "sagemaker:OutputKmsKeyArn": KEY,
    },
)
PROCESS = replace(
    TRAIN,
    action="sagemaker:CreateProcessingJob",
    resource=arn("sagemaker", "processing-job/pipelines-abc-Evaluate-xyz"),
    context={
        **TRAIN.context,
        "sagemaker:InstanceTypes": ["ml.m5.xlarge"],
        "sagemaker:MaxRuntimeInSeconds": "1800",
    },
)
MODEL = Question(
    "sagemaker:CreateModel",
    arn("sagemaker", "model/pipelines-abc-CreateModel-xyz"),
    {"sagemaker:VpcSubnets": [HOSTING_SUBNET], "sagemaker:VpcSecurityGroupIds": [HOSTING_GROUP]},
)
CONFIG = Question(
    "sagemaker:CreateEndpointConfig",
    arn("sagemaker", "endpoint-config/shoal-mnist-dev-abc"),
    {
        "sagemaker:InstanceTypes": ["ml.m5.xlarge"],
        "sagemaker:ModelArn": arn("sagemaker", "model/pipelines-abcdefghijkl-CreateModel-x"),
    },
)
REGISTER = Question(
    "sagemaker:CreateModelPackage",
    arn("sagemaker", "model-package/shoal-mnist-dev/1"),
    {"sagemaker:ModelApprovalStatus": "PendingManualApproval"},
)
PASS = Question(
    "iam:PassRole",
    role_arn(f"{PREFIX}training"),
    {"iam:PassedToService": "sagemaker.amazonaws.com"},
)


def _stream(group: str, job: str) -> str:
    return arn("logs", f"log-group:/aws/sagemaker/{group}:log-stream:{job}/algo-1-1700000000")


LOG = Question("logs:PutLogEvents", _stream("TrainingJobs", "pipelines-abc-Train-xyz"))
READ = Question("s3:GetObject", f"{DATA}/datasets/mnist/train/images")
LIST = Question("s3:ListBucket", DATA, {"s3:prefix": "datasets/mnist/train/"})
WRITE = Question("s3:PutObject", f"{ARTIFACTS}/training/abc/output/model.tar.gz")
REPORT = Question("s3:PutObject", f"{ARTIFACTS}/evaluation/abc/evaluation.json")
SEALED = f"{ARTIFACTS}/models/{'0' * 64}/model.tar.gz"
SERVE = Question("s3:GetObject", SEALED)
SEAL = Question("s3:PutObject", SEALED)
ATTACH = Question("ec2:CreateNetworkInterface", arn("ec2", f"subnet/{SUBNET}"))
DETACH = Question("ec2:DeleteNetworkInterface", arn("ec2", "network-interface/eni-1"))
ENCRYPT = Question(
    "kms:GenerateDataKey",
    KEY,
    {
        "kms:ViaService": "s3.us-east-1.amazonaws.com",
        "kms:EncryptionContext:aws:s3:arn": ARTIFACTS,
        "kms:CallerAccount": "111122223333",
    },
)
PULL = Question(
    "ecr:BatchGetImage", "arn:aws:ecr:us-east-1:763104351884:repository/pytorch-training"
)
METRIC = Question(
    "cloudwatch:PutMetricData", "*", {"cloudwatch:namespace": "/aws/sagemaker/TrainingJobs"}
)
OURS: Mapping[str, ContextValue] = {"aws:ResourceTag/shoal:pipeline": "shoal-mnist-dev"}
ANOTHER_PIPELINES_TAG: Mapping[str, ContextValue] = {
    "aws:ResourceTag/shoal:pipeline": "shoal-mnist-dev-2"
}
STOP = Question("sagemaker:StopTrainingJob", TRAIN.resource, OURS)
DELETE = Question(
    "sagemaker:DeleteEndpoint", arn("sagemaker", "endpoint/shoal-mnist-dev-abc"), OURS
)
DELETE_MODEL = Question(
    "sagemaker:DeleteModel", arn("sagemaker", "model/pipelines-abc-CreateModel-xyz"), OURS
)
INVOKE = Question(
    "sagemaker:InvokeEndpoint", arn("sagemaker", "endpoint/shoal-mnist-dev-abc"), OURS
)
CALL = Question("lambda:InvokeFunction", arn("lambda", "function:shoal-mnist-dev-smoke-test"))
SWEEP_MODEL = Question("sagemaker:DeleteModel", arn("sagemaker", "model/shoal-mnist-dev-abc"), OURS)
TAG = Question(
    "sagemaker:AddTags",
    TRAIN.resource,
    {
        "aws:RequestTag/shoal:pipeline": "shoal-mnist-dev",
        "sagemaker:TaggingAction": "CreateTrainingJob",
    },
)
UNTAGGED: Mapping[str, ContextValue | None] = {"aws:ResourceTag/shoal:pipeline": None}
LOOK = Question(
    "sagemaker:DescribePipelineExecution",
    arn("sagemaker", "pipeline/shoal-mnist-dev/execution/abc"),
)
MEASURE = Question("cloudwatch:PutMetricData", "*", {"cloudwatch:namespace": "Shoal"})
PAGE = Question("s3:PutObject", f"{ARTIFACTS}/runs/abc/run.html")
SHOW = Question("s3:GetObject", f"{ARTIFACTS}/evaluation/abc/evaluation.json")
LINES = Question("logs:GetLogEvents", LOG.resource)
EMPTY = Question("s3:DeleteObjectVersion", f"{DATA}/datasets/mnist/train/images")

CASES = {
    # The pipeline starts what the definition describes, where the environment is, and nothing else.
    **{
        f"write into the log of the endpoint {other}": Case(
            "endpoint",
            replace(LOG, resource=_stream("Endpoints/shoal-mnist-dev-abcdefghijkl", "AllTraffic")),
            resource=_stream(f"Endpoints/{other}", "AllTraffic"),
        )
        for other in ("shoal-mnist-dev", "shoal-mnist-prod-abcdefghijkl", "somebody-elses")
    },
    "write into the log of a job that no pipeline started": Case(
        "training", LOG, resource=_stream("TrainingJobs", "somebodys-job")
    ),
    "write into the log of another's evaluation": Case(
        "evaluation",
        replace(LOG, resource=_stream("ProcessingJobs", "pipelines-abc-Evaluate-xyz")),
        resource=_stream("ProcessingJobs", "somebodys-job"),
    ),
    "make a stream of a job that no pipeline started": Case(
        "training",
        replace(LOG, action="logs:CreateLogStream"),
        resource=_stream("TrainingJobs", "somebodys-job"),
    ),
    "train on another instance type": Case(
        "pipeline", TRAIN, context={"sagemaker:InstanceTypes": ["ml.p5.48xlarge"]}
    ),
    "train on one more instance type": Case(
        "pipeline",
        TRAIN,
        context={"sagemaker:InstanceTypes": ["ml.p4d.24xlarge", "ml.p5.48xlarge"]},
    ),
    "train on no stated instance type": Case(
        "pipeline", TRAIN, context={"sagemaker:InstanceTypes": None}
    ),
    "train longer": Case("pipeline", TRAIN, context={"sagemaker:MaxRuntimeInSeconds": "3601"}),
    "train without a limit of time": Case(
        "pipeline", TRAIN, context={"sagemaker:MaxRuntimeInSeconds": None}
    ),
    "train in another subnet": Case(
        "pipeline", TRAIN, context={"sagemaker:VpcSubnets": ["subnet-0f"]}
    ),
    "train in another subnet too": Case(
        "pipeline", TRAIN, context={"sagemaker:VpcSubnets": [SUBNET, "subnet-0f"]}
    ),
    "train in a hosting subnet": Case(
        "pipeline", TRAIN, context={"sagemaker:VpcSubnets": [HOSTING_SUBNET]}
    ),
    "train outside a VPC": Case(
        "pipeline",
        TRAIN,
        context={"sagemaker:VpcSubnets": None, "sagemaker:VpcSecurityGroupIds": None},
    ),
    "train with another security group": Case(
        "pipeline", TRAIN, context={"sagemaker:VpcSecurityGroupIds": ["sg-0f"]}
    ),
    "train with another key": Case(
        "pipeline", TRAIN, context={"sagemaker:OutputKmsKeyArn": OTHER_KEY}
    ),
    "train without a key": Case("pipeline", TRAIN, context={"sagemaker:OutputKmsKeyArn": None}),
    "train from a file system": Case(
        "pipeline", TRAIN, context={"sagemaker:FileSystemId": "fs-0f"}
    ),
    "train under a name of its own": Case("pipeline", TRAIN, arn("sagemaker", "training-job/mine")),
    "evaluate on the training's instance type": Case(
        "pipeline", PROCESS, context={"sagemaker:InstanceTypes": ["ml.p4d.24xlarge"]}
    ),
    "evaluate longer": Case("pipeline", PROCESS, context={"sagemaker:MaxRuntimeInSeconds": "1801"}),
    "evaluate outside the VPC": Case(
        "pipeline",
        PROCESS,
        context={"sagemaker:VpcSubnets": None, "sagemaker:VpcSecurityGroupIds": None},
    ),
    "evaluate in a hosting subnet": Case(
        "pipeline", PROCESS, context={"sagemaker:VpcSubnets": [HOSTING_SUBNET]}
    ),
    "evaluate with another security group": Case(
        "pipeline", PROCESS, context={"sagemaker:VpcSecurityGroupIds": [HOSTING_GROUP]}
    ),
    "evaluate on no stated instance type": Case(
        "pipeline", PROCESS, context={"sagemaker:InstanceTypes": None}
    ),
    "evaluate with another key": Case(
        "pipeline", PROCESS, context={"sagemaker:OutputKmsKeyArn": OTHER_KEY}
    ),
    "serve with another security group": Case(
        "pipeline", MODEL, context={"sagemaker:VpcSecurityGroupIds": [GROUP]}
    ),
    "serve on no stated instance type": Case(
        "pipeline", CONFIG, context={"sagemaker:InstanceTypes": None}
    ),
    "attach an endpoint to a training subnet": Case(
        "endpoint",
        replace(ATTACH, resource=arn("ec2", f"subnet/{HOSTING_SUBNET}")),
        arn("ec2", f"subnet/{SUBNET}"),
    ),
    "attach an endpoint with another security group": Case(
        "endpoint",
        replace(ATTACH, resource=arn("ec2", f"security-group/{HOSTING_GROUP}")),
        arn("ec2", f"security-group/{GROUP}"),
    ),
    "serve from the training subnet": Case(
        "pipeline", MODEL, context={"sagemaker:VpcSubnets": [SUBNET]}
    ),
    "serve from outside a VPC": Case(
        "pipeline",
        MODEL,
        context={"sagemaker:VpcSubnets": None, "sagemaker:VpcSecurityGroupIds": None},
    ),
    "serve from another instance type": Case(
        "pipeline", CONFIG, context={"sagemaker:InstanceTypes": ["ml.p4d.24xlarge"]}
    ),
    "configure another pipeline's endpoint": Case(
        "pipeline", CONFIG, arn("sagemaker", "endpoint-config/shoal-mnist-prod-abc")
    ),
    "configure an endpoint of another workload's model": Case(
        "pipeline",
        CONFIG,
        context={"sagemaker:ModelArn": arn("sagemaker", "model/shoal-houses-dev-abc")},
    ),
    "configure an endpoint of no stated model": Case(
        "pipeline", CONFIG, context={"sagemaker:ModelArn": None}
    ),
    "register its model as approved": Case(
        "pipeline", REGISTER, context={"sagemaker:ModelApprovalStatus": "Approved"}
    ),
    "register in another group": Case(
        "pipeline", REGISTER, arn("sagemaker", "model-package/shoal-mnist-prod/1")
    ),
    "approve its own model": Case(
        "pipeline",
        REGISTER,
        action="sagemaker:UpdateModelPackage",
        context={"sagemaker:ModelApprovalStatus": "Approved"},
    ),
    "hand over another role": Case("pipeline", PASS, role_arn("Admin")),
    "hand over another environment's role": Case(
        "pipeline", PASS, role_arn("shoal-mnist-prod-us-east-1-training")
    ),
    "hand over its own role": Case("pipeline", PASS, role_arn(f"{PREFIX}pipeline")),
    "hand over the role that deletes": Case("pipeline", PASS, role_arn(f"{PREFIX}teardown")),
    "hand a role to another service": Case(
        "pipeline", PASS, context={"iam:PassedToService": "lambda.amazonaws.com"}
    ),
    "stop another pipeline's training": Case("pipeline", STOP, context=ANOTHER_PIPELINES_TAG),
    "stop a training without tags": Case("pipeline", STOP, context=UNTAGGED),
    "make something that is there look like its own": Case(
        "pipeline", TAG, context={"sagemaker:TaggingAction": None}
    ),
    "tag something as another pipeline's": Case(
        "pipeline", TAG, context={"aws:RequestTag/shoal:pipeline": "shoal-mnist-dev-2"}
    ),
    "call an endpoint without tags": Case("smoke-test", INVOKE, context=UNTAGGED),
    "delete a generated model without tags": Case("teardown", DELETE_MODEL, context=UNTAGGED),
    "call another function": Case(
        "pipeline", CALL, arn("lambda", "function:shoal-mnist-prod-smoke-test")
    ),
    # What keeps pages reads this pipeline's executions, and writes pages.
    "keep a page as a report": Case("pages", PAGE, REPORT.resource),
    "keep a page as a sealed model": Case("pages", PAGE, SEALED),
    "show a sealed model": Case("pages", SHOW, SEALED),
    "show another pipeline's execution": Case(
        "pages", LOOK, arn("sagemaker", "pipeline/shoal-mnist-dev-2/execution/abc")
    ),
    "show the log of a job that no pipeline started": Case(
        "pages", LINES, _stream("TrainingJobs", "mine")
    ),
    "search the logs of all jobs": Case(
        "pages",
        LINES,
        arn("logs", "log-group:/aws/sagemaker/TrainingJobs"),
        action="logs:FilterLogEvents",
    ),
    # Training reads data and writes its outputs; it starts, hands over and approves nothing.
    "read what is no dataset": Case("training", READ, f"{DATA}/private/x"),
    "read another environment's data": Case(
        "training", READ, f"{PROD_DATA}/datasets/mnist/train/images"
    ),
    "write into the data": Case("training", READ, action="s3:PutObject"),
    "list the whole data bucket": Case("training", LIST, context={"s3:prefix": ""}),
    "list the data bucket without a prefix": Case("training", LIST, context={"s3:prefix": None}),
    "write another purpose's outputs": Case(
        "training", WRITE, f"{ARTIFACTS}/evaluation/abc/evaluation.json"
    ),
    "write another environment's outputs": Case(
        "training",
        WRITE,
        f"{ARTIFACTS.replace('-dev-', '-prod-')}/training/abc/output/model.tar.gz",
    ),
    "write a sealed model": Case("training", WRITE, SEALED),
    "delete an output": Case("training", WRITE, action="s3:DeleteObject"),
    "read a trained model": Case("training", READ, f"{ARTIFACTS}/training/abc/output/model.tar.gz"),
    "attach to a hosting subnet": Case("training", ATTACH, arn("ec2", f"subnet/{HOSTING_SUBNET}")),
    "attach with another security group": Case(
        "training", ATTACH, arn("ec2", f"security-group/{HOSTING_GROUP}")
    ),
    "delete an interface of another region": Case(
        "training", DETACH, DETACH.resource.replace("us-east-1", "eu-west-1")
    ),
    "use another key": Case("training", ENCRYPT, OTHER_KEY),
    "pull another image": Case("training", PULL, arn("ecr", "repository/private")),
    "publish metrics as another namespace": Case(
        "training", METRIC, context={"cloudwatch:namespace": "AWS/Billing"}
    ),
    "start a training from a training": Case(
        "training", READ, TRAIN.resource, TRAIN.context, TRAIN.action
    ),
    "hand a role over from a training": Case(
        "training", READ, PASS.resource, PASS.context, PASS.action
    ),
    "approve a model from a training": Case(
        "training",
        READ,
        REGISTER.resource,
        {"sagemaker:ModelApprovalStatus": "Approved"},
        "sagemaker:UpdateModelPackage",
    ),
    # The evaluation judges; it must not change what it judges, nor say that it may go on.
    "change the model it judges": Case(
        "evaluation", REPORT, f"{ARTIFACTS}/training/abc/output/model.tar.gz"
    ),
    "change the data it judges with": Case(
        "evaluation", REPORT, f"{DATA}/datasets/mnist/test/labels"
    ),
    "approve the model it judged": Case(
        "evaluation",
        REPORT,
        REGISTER.resource,
        {"sagemaker:ModelApprovalStatus": "Approved"},
        "sagemaker:UpdateModelPackage",
    ),
    "write a sealed model from an evaluation": Case("evaluation", REPORT, SEALED),
    # The seal copies; it neither trains nor judges.
    "write what training writes": Case("seal", SEAL, WRITE.resource),
    "write what an evaluation writes": Case("seal", SEAL, REPORT.resource),
    "delete what is sealed": Case("seal", SEAL, action="s3:DeleteObjectVersion"),
    # The endpoint serves one kind of file.
    "read data from an endpoint": Case("endpoint", SERVE, f"{DATA}/datasets/mnist/train/images"),
    "serve what is not sealed": Case("endpoint", SERVE, WRITE.resource),
    "write from an endpoint": Case("endpoint", SERVE, action="s3:PutObject"),
    "call another endpoint from an endpoint": Case(
        "endpoint", SERVE, INVOKE.resource, INVOKE.context, INVOKE.action
    ),
    # Functions.
    "call another pipeline's endpoint": Case(
        "smoke-test", INVOKE, arn("sagemaker", "endpoint/shoal-mnist-prod-abc")
    ),
    "call the endpoint of an environment whose name begins like ours": Case(
        "smoke-test",
        INVOKE,
        arn("sagemaker", "endpoint/shoal-mnist-dev-2-abc"),
        ANOTHER_PIPELINES_TAG,
    ),
    "delete the endpoint that it tests": Case(
        "smoke-test", INVOKE, action="sagemaker:DeleteEndpoint"
    ),
    "delete a foreign endpoint": Case(
        "teardown", DELETE, arn("sagemaker", "endpoint/somebody-elses")
    ),
    "delete another environment's endpoint": Case(
        "teardown", DELETE, arn("sagemaker", "endpoint/shoal-mnist-prod-abc")
    ),
    "delete the endpoint of an environment whose name begins like ours": Case(
        "teardown",
        DELETE,
        arn("sagemaker", "endpoint/shoal-mnist-dev-2-abc"),
        ANOTHER_PIPELINES_TAG,
    ),
    "delete the generated model of another pipeline": Case(
        "teardown", DELETE_MODEL, context=ANOTHER_PIPELINES_TAG
    ),
    "delete a foreign model": Case(
        "teardown", DELETE_MODEL, arn("sagemaker", "model/somebody-elses")
    ),
    "call the endpoint that it deletes": Case(
        "teardown", DELETE, action="sagemaker:InvokeEndpoint"
    ),
    "sweep up a foreign endpoint": Case(
        "sweep", DELETE, arn("sagemaker", "endpoint/somebody-elses")
    ),
    "sweep up another environment's model": Case(
        "sweep", SWEEP_MODEL, arn("sagemaker", "model/shoal-mnist-prod-abc")
    ),
    "look at another pipeline's executions": Case(
        "sweep", LOOK, arn("sagemaker", "pipeline/shoal-mnist-prod/execution/abc")
    ),
    "look at another pipeline's execution": Case(
        "teardown", LOOK, arn("sagemaker", "pipeline/shoal-mnist-prod/execution/abc")
    ),
    "measure in AWS's name": Case(
        "sweep", MEASURE, context={"cloudwatch:namespace": "AWS/SageMaker"}
    ),
    "empty another environment's bucket": Case(
        "empty-on-delete", EMPTY, f"{PROD_DATA}/datasets/mnist/train/images"
    ),
    "read what it empties": Case("empty-on-delete", EMPTY, action="s3:GetObject"),
}


@pytest.fixture(scope="session")
def roles(evaluator: Evaluator, dev: Templates) -> Roles:
    return Roles(evaluator, dev.identity_policies(), dev.key_policies())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_question_that_is_allowed_is_refused_with_one_thing_changed(
    roles: Roles, case: Case
) -> None:
    assert case.decided(roles, PREFIX + case.actor) == [True, False]


@pytest.mark.parametrize(
    "changed",
    [
        {"sagemaker:FileSystemAccessMode": "rw"},
        {"sagemaker:FileSystemType": "EFS"},
        {"sagemaker:FileSystemAccessMode": None},
        {"sagemaker:FileSystemType": None},
    ],
    ids=str,
)
def test_a_training_with_a_file_system_reads_it_only(
    evaluator: Evaluator, templates: dict[str, Templates], changed: dict[str, ContextValue | None]
) -> None:
    everything = templates["everything"]
    mounted = {
        "sagemaker:FileSystemId": "fs-0f",
        "sagemaker:FileSystemAccessMode": "ro",
        "sagemaker:FileSystemType": "FSxLustre",
    }
    case = Case("pipeline", replace(TRAIN, context={**TRAIN.context, **mounted}), context=changed)
    roles = Roles(evaluator, everything.identity_policies(), everything.key_policies())
    assert case.decided(roles, PREFIX + case.actor) == [True, False]


@pytest.mark.parametrize("actor", ["pipeline", "training", "evaluation"])
def test_approval_stays_denied_whatever_else_is_allowed(
    evaluator: Evaluator, dev: Templates, actor: str
) -> None:
    generous = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
    }
    identity = {PREFIX + actor: {**dev.identity_policies()[PREFIX + actor], "generous": generous}}
    approve = replace(
        REGISTER,
        action="sagemaker:UpdateModelPackage",
        context={"sagemaker:ModelApprovalStatus": "Approved"},
    )
    assert Roles(evaluator, identity).decide(PREFIX + actor, approve).explicit


@pytest.mark.parametrize(
    "question",
    [
        replace(DELETE, action="sagemaker:DescribeEndpoint"),
        replace(DELETE_MODEL, action="sagemaker:DescribeModel"),
    ],
    ids=lambda question: question.action,
)
def test_what_does_not_exist_and_so_has_no_tags_is_not_denied(
    roles: Roles, question: Question
) -> None:
    assert roles.decide(PREFIX + "teardown", replace(question, context={})).allowed


@pytest.mark.parametrize("actor", ["teardown", "sweep"])
@pytest.mark.parametrize("question", [DELETE, DELETE_MODEL], ids=lambda question: question.action)
def test_what_has_no_tags_is_not_deleted(roles: Roles, actor: str, question: Question) -> None:
    assert not roles.decide(PREFIX + actor, replace(question, context={})).allowed


def test_a_definition_of_ones_own_need_not_tag_what_it_makes() -> None:
    own = load_environment("dev", ROOT).model_copy(update={"pipeline": "mine.hello:build"})
    assert [list(ours(Names(each))) for each in (own, load_environment("dev", ROOT))] == [
        ["StringEqualsIfExists"],
        ["StringEquals"],
    ]
