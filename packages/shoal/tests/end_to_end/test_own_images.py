"""Images and packages of the user's own: an image that is declared, one that is built, and an index
that asks who asks.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.sagemaker_account import ACCOUNT_ID, INFERENCE_IMAGE, TRAINING_IMAGE, Account
from shoal import images as recipes
from shoal.aws.target import Target
from shoal.launch.recipes import content_tag
from shoal.launch.recipes import recipe as recipe_named
from shoal_local.errors import EmulatorError
from shoal_local.runtimes.catalog import image
from shoal_local.sagemaker.core import Settings
from shoal_local.server import Options
from tests.end_to_end.conftest import OWN_IMAGE, Checkout, environment_text
from tests.private_index import PACKAGE, VERSION, private_index
from tests.repository import ROOT

UNKNOWN = OWN_IMAGE.replace("mine", "theirs")
GROUP = "/aws/sagemaker/TrainingJobs"


def algorithm(uri: str) -> dict[str, str]:
    return {"TrainingImage": uri, "TrainingInputMode": "File"}


def test_a_declared_image_trains_and_the_log_says_what_stands_for_it(account: Account) -> None:
    job = account.train(
        "own-image", hyperparameters={"do": "succeed"}, AlgorithmSpecification=algorithm(OWN_IMAGE)
    )
    assert (job["TrainingJobStatus"], "model.txt" in account.model_files(job)) == (
        "Completed",
        True,
    ), job.get("FailureReason")
    said = f"{OWN_IMAGE} is an image of your own: the runtime pytorch stands for it"
    assert account.log(GROUP, "own-image/emulator-")[0].startswith(said)


def test_an_undeclared_image_is_refused_with_its_declaration(account: Account) -> None:
    with pytest.raises(ClientError) as refused:
        account.sagemaker.create_training_job(
            **account.training("unknown-image", AlgorithmSpecification=algorithm(UNKNOWN))
        )
    assert f"does not emulate the image {UNKNOWN} for training" in str(refused.value)
    assert f"`local: {{images: {{'{UNKNOWN}': pytorch}}}}` in the environment file" in str(
        refused.value
    )


@pytest.mark.parametrize(
    ("uri", "program"), [(TRAINING_IMAGE, "start_training.py"), (INFERENCE_IMAGE, "serve_model.py")]
)
def test_a_declaration_does_not_change_what_aws_images_are(uri: str, program: str) -> None:
    use = "training" if uri == TRAINING_IMAGE else "inference"
    found = image(uri, use, {"*": "tensorflow"})
    assert found
    assert (found.runtime.name, found.program, found.is_declared) == ("pytorch", program, False)


@pytest.mark.parametrize(
    ("use", "recipe"),
    [("training", each) for each in recipes.names(serves=False)]
    + [("inference", each) for each in recipes.names(serves=True)],
)
@pytest.mark.parametrize("version", [":1", "@sha256:" + "0" * 64])
def test_an_image_of_a_recipe_runs_on_the_runtime_with_its_packages(
    use: str, recipe: str, version: str
) -> None:
    repository = recipes.local_tag(recipe).partition(":")[0]
    found = image(f"111122223333.dkr.ecr.eu-west-1.amazonaws.com/{repository}{version}", use)
    assert found
    row = recipe_named(recipe)
    runtime = "trainers" if "trainers" in recipe else row.framework
    assert use == "inference" or (row.runtime or row.framework) == runtime
    assert (found.runtime.name, found.is_declared) == (runtime, True)


def test_a_runtime_that_there_is_not_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(
        EmulatorError,
        match="--image mine:1=jax: there is no runtime 'jax'; there are: pytorch, tensorflow",
    ):
        Options(tmp_path, ACCOUNT_ID, "us-east-1", Settings(images={"mine:1": "jax"}))


PREFIX = "shoal-mnist-img"
PARAMETER = (
    f"/shoal/{PREFIX}/images/pytorch-smddp/{content_tag('pytorch-smddp', 'us-east-1', ROOT)}"
)
URI = f"111122223333.dkr.ecr.us-east-1.amazonaws.com/{PREFIX}-pytorch-smddp@sha256:{'a' * 64}"


@pytest.mark.nightly
def test_an_environment_with_an_image_of_its_own_comes_and_goes(
    checkout: Checkout, tmp_path: Path
) -> None:
    """The build deploys what it needs, and the emulator refuses it by name."""
    own = checkout.with_environment(tmp_path, "img")
    with own.emulator("img"):
        client = own.local_target.client

        def stacks() -> set[str]:
            described = client("cloudformation").describe_stacks()["Stacks"]
            return {each["StackName"] for each in described if PREFIX in each["StackName"]}

        for options in ((), ("--images",)):
            refused = own.run("deploy", "img", "--local", *options)
            says = f"builds no container images (codebuild:StartBuild of {PREFIX}-image-build)"
            assert (refused.exit_code, says in refused.output) == (1, True), refused.output
            assert stacks() & {f"{PREFIX}-{each}" for each in ("image", "pipeline")} == {
                f"{PREFIX}-image"
            }
        # as the build's script does, see packages/shoal/tests/stacks/test_image.py
        client("ssm").put_parameter(Name=PARAMETER, Type="String", Value=URI)
        own.succeed("deploy", "img", "--local")
        described = client("sagemaker").describe_pipeline(PipelineName=PREFIX)
        (train, *_) = json.loads(described["PipelineDefinition"])["Steps"]
        assert train["Arguments"]["AlgorithmSpecification"]["TrainingImage"] == URI
        own.succeed("destroy", "img", "--local")
        left = client("ssm").get_parameters(Names=[PARAMETER])["Parameters"]
        repositories = client("ecr").describe_repositories()["repositories"]
        left += [each for each in repositories if not each["repositoryName"].startswith("cdk-")]
        assert (stacks(), left) == (set(), [])


PASSWORDS = ('pa"ss\\w0rd/with@signs', "n0t-the-passw0rd")
"""The index's, and another one."""
SECRET = "twelve signs"
TRAIN = f"""
import os
import pathlib
import boto3
import {PACKAGE}
from botocore.exceptions import ClientError

assert {PACKAGE}.VERSION == "{VERSION}"
assert "NETRC" not in os.environ and "@" not in os.environ["PIP_INDEX_URL"]
secrets, name = boto3.client("secretsmanager"), os.environ["SHOAL_SECRET_TOKEN"]
assert name == "team/token"
assert len(secrets.get_secret_value(SecretId=name)["SecretString"]) == 12
try:
    secrets.get_secret_value(SecretId="team/other")
    raise SystemExit("team/other was read")
except ClientError as error:
    assert error.response["Error"]["Code"] == "AccessDeniedException"
pathlib.Path(os.environ["SM_MODEL_DIR"], "model.txt").write_text({PACKAGE}.VERSION)
"""
SCRIPTS = {"train.py": TRAIN, "requirements.txt": f"{PACKAGE}=={VERSION}\n"}
SCRIPTS |= dict.fromkeys(("evaluate.py", "inference.py"), "print()  # rmse r2\n")


def trained(target: Target) -> list[tuple[dict[str, Any], str]]:
    """Return what is known of each training job, the first one first, and all that was logged."""
    sagemaker, logs = target.client("sagemaker"), target.client("logs")
    by_age = {"SortBy": "CreationTime", "SortOrder": "Ascending"}
    group, answers = {"logGroupName": "/aws/sagemaker/TrainingJobs"}, list[Any]()
    for job in sagemaker.list_training_jobs(**by_age)["TrainingJobSummaries"]:
        name = job["TrainingJobName"]
        streams = logs.describe_log_streams(**group, logStreamNamePrefix=name)["logStreams"]
        pages = (logs.get_log_events(**group, logStreamName=s["logStreamName"]) for s in streams)
        lines = "\n".join(each["message"] for page in pages for each in page["events"])
        answers.append((sagemaker.describe_training_job(TrainingJobName=name), lines))
    return answers


@pytest.mark.nightly
def test_a_training_reads_its_own_secret_and_installs_from_a_private_index_and_no_log_tells(
    checkout: Checkout, tmp_path: Path
) -> None:
    """Deployed with the policies of every role applied, and the watch off."""
    own_code = "source_dir: mine, stall_s: off, secrets: {TOKEN: team/token}"
    text = environment_text("prices").replace("strategy: torchrun", f"strategy: none, {own_code}")
    text = text.replace("count: 2", "count: 1")
    with private_index("team", PASSWORDS[0]) as url:
        index = f"{{url: '{url}', secret: team/index}}"
        text += f"\ntarget: local\norganisation: {{package_index: {index}}}\n"
        own = checkout.with_environment(tmp_path, "prices", text)
        (own.root / "mine").mkdir()
        for name, content in SCRIPTS.items():
            (own.root / "mine" / name).write_text(content)
        with own.emulator("prices"):
            secrets = own.local_target.client("secretsmanager")
            values = [json.dumps({"username": "team", "password": each}) for each in PASSWORDS]
            secrets.create_secret(Name="team/index", SecretString=values[0])
            for name in ("team/token", "team/other"):
                secrets.create_secret(Name=name, SecretString=SECRET)
            own.succeed("deploy", "prices", "--local")
            own.succeed("data", "upload", "prices", "--local")
            outputs = [own.run("run", "prices", "--local", "--follow").output]
            secrets.put_secret_value(SecretId="team/index", SecretString=values[1])
            outputs += [own.run("run", "prices", "--local", "--follow").output]
            (installed, first), (refused, second) = trained(own.local_target)
    assert installed["TrainingJobStatus"] == "Completed", outputs[0]
    reason = refused["FailureReason"]
    assert "PackageIndexError: requirements.txt was not installed: pip ended with 1" in reason
    assert "; the index answers team 401" in reason
    assert f"No matching distribution found for {PACKAGE}=={VERSION}" in reason
    kept = "".join([*outputs, first, second, *map(str, (installed, refused))])
    assert second.count("shoal: installing requirements.txt from") == 1
    assert [
        each for each in (*PASSWORDS, SECRET) if each in kept or json.dumps(each)[1:-1] in kept
    ] == []
