"""Images of the user's own: one that is declared trains on the runtime that stands for it, one that
is not is refused by name.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from local_kit.sagemaker_account import ACCOUNT_ID, INFERENCE_IMAGE, TRAINING_IMAGE, Account
from shoal import images as recipes
from shoal.launch.recipes import recipe as recipe_named
from shoal_local.errors import EmulatorError
from shoal_local.runtimes.catalog import image
from shoal_local.server import Options
from tests.end_to_end.conftest import OWN_IMAGE

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
    runtime = "trainers" if "trainers" in recipe else recipe_named(recipe).framework
    assert (found.runtime.name, found.is_declared) == (runtime, True)


def test_a_runtime_that_there_is_not_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(
        EmulatorError,
        match="--image mine:1=jax: there is no runtime 'jax'; there are: pytorch, tensorflow",
    ):
        Options(tmp_path, ACCOUNT_ID, "us-east-1", images={"mine:1": "jax"})
