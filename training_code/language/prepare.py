"""Writes the dataset: the documentation of AWS services that botocore brings along. Nothing is
downloaded, and the same files come out each time.

    python prepare.py --out FOLDER

It writes a file for each service, those of `TEST` to FOLDER/test, the others to FOLDER/train. Let
FOLDER be new: what else is there would be learned from, too.
"""

import argparse
import gzip
import hashlib
import html
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

TRAIN = (
    "autoscaling",
    "bedrock",
    "cloudformation",
    "cloudwatch",
    "dynamodb",
    "ec2",
    "ecr",
    "ecs",
    "eks",
    "elasticache",
    "emr",
    "events",
    "glue",
    "iam",
    "kms",
    "lambda",
    "logs",
    "opensearch",
    "rds",
    "redshift",
    "s3",
    "sagemaker",
    "sns",
    "sqs",
    "ssm",
    "stepfunctions",
)
TEST = ("athena", "transcribe")
"""Services that training sees nothing of: what stands word for word in another one is left out."""
SHA256 = {
    "train": "c1ef4c0ad6179c3fcdca6dbe5c54ee524337f71ed15978f45a19bc6e8ff69992",
    "test": "8efb4b008c84fe630cbf4e12dca566f9a9debc09f547d39cb59f6aa7915e08d6",
}
"""Of all files of a channel, one after the other, from the botocore of requirements.txt."""

_BREAK = re.compile(r"</?(?:p|li|ul|ol|dl|dt|dd|br|h[1-6]|tr|table|note|important)\b[^>]*>")
_TAG = re.compile(r"<[^>]+>")


def main(arguments: Sequence[str]) -> str | None:
    """Write both channels; return what is wrong, if that cannot be done."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0], allow_abbrev=False)
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    out = parser.parse_args(arguments).out
    try:
        channels = documentation()
    except ValueError as error:
        return str(error)
    for channel, files in channels.items():
        (out / channel).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / channel / name).write_bytes(text.encode())
    return None


def documentation() -> dict[str, dict[str, str]]:
    """Return by channel and file name what botocore says of the services.

    Raise ValueError if that is not what training was measured with.
    """
    import botocore

    known: set[str] = set()
    channels = {
        channel: {f"{service}.txt": service_text(service, known) for service in services}
        for channel, services in (("train", TRAIN), ("test", TEST))
    }
    for channel, files in channels.items():
        digest = hashlib.sha256("".join(files.values()).encode()).hexdigest()
        if digest != SHA256[channel]:
            raise ValueError(
                f"the documentation in botocore {botocore.__version__} is not the one that the"
                f" gate was measured with: sha256 of {channel} is {digest}, not {SHA256[channel]};"
                " run `make install`, or measure again and write the new sums into"
                f" {Path(__file__).name}"
            )
    return channels


def service_text(service: str, known: set[str]) -> str:
    """Return a service's documentation as paragraphs `Name: text`.

    A text that is `known` is left out, and each one is known after it.
    """
    paragraphs = []
    for name, documented in _entries(_model(service)):
        text = plain_text(documented)
        if text and text not in known:
            known.add(text)
            paragraphs.append(f"{name}: {text}\n")
    return "\n".join(paragraphs)


def plain_text(documented: str) -> str:
    """Return HTML as plain text, a line for each paragraph or item of a list."""
    parts = (html.unescape(_TAG.sub("", part)) for part in _BREAK.split(documented))
    lines = (" ".join(part.split()) for part in parts)
    return "\n".join(filter(None, lines))


def _model(service: str) -> dict[str, Any]:
    import botocore

    data = Path(botocore.__file__).parent / "data" / service
    newest = max(folder for folder in data.iterdir() if folder.is_dir())
    model: dict[str, Any] = json.loads(gzip.decompress((newest / "service-2.json.gz").read_bytes()))
    return model


def _entries(model: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and documentation of the service, its operations, its shapes and their members."""
    yield model["metadata"]["serviceFullName"], model.get("documentation", "")
    for name, operation in model["operations"].items():
        yield name, operation.get("documentation", "")
    for name, shape in model["shapes"].items():
        yield name, shape.get("documentation", "")
        for member, reference in shape.get("members", {}).items():
            yield member, reference.get("documentation", "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
