"""A third workload, in tests only: it trains in an image of its own, and nothing serves it."""

from __future__ import annotations

from pathlib import Path

from tests.repository import CHECKOUT, copy_folder

FOLDER = CHECKOUT / "packages" / "shoal" / "tests" / "fixtures" / "training_code" / "letters"
IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/letters:1"
ENVIRONMENT = f"""name: lab
workload: letters
account: "111122223333"
region: us-east-1
protect: false
network: {{training_az_id: use1-az4, hosting_az_ids: [use1-az1, use1-az2]}}
training: {{strategy: none, instance_type: ml.m5.large, image_uri: {IMAGE}}}
evaluation: {{image_uri: {IMAGE}}}
local: {{images: {{"{IMAGE}": pytorch}}}}
"""
BASE_MODEL = f"{ENVIRONMENT}data: {{channels: {{base_model: {{}}}}}}\n"
"""The same with the optional channel, as a folder of the dataset."""


def add_letters(root: Path) -> None:
    """Add the workload to the repository at `root`."""
    copy_folder(FOLDER, root / "training_code" / FOLDER.name)


def write_environment(root: Path, text: str = ENVIRONMENT) -> None:
    """Write the file of the environment `lab`, in a repository without environments."""
    (root / "environments").mkdir()
    (root / "environments" / "lab.yaml").write_text(text)
