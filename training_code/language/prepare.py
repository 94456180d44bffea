"""Writes the dataset: the documentation of AWS services that botocore brings along, or a folder of
your own text. Nothing is downloaded, and the same files come out each time.

    python prepare.py --out FOLDER
    python prepare.py --out FOLDER --text TEXTS

The first writes a file for each service, those of `TEST` to FOLDER/test, the others to
FOLDER/train. The second takes all `*.txt` and the field `text` of all `*.jsonl` below TEXTS; each
tenth document is for the test.

FOLDER/.prepared lists the files that were written. A later run removes those first, and nothing
else: it refuses a channel that has others.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import html
import json
import re
import runpy
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
TEST_EVERY = 10
"""Of your own documents, which are taken in the order of their files."""
CHANNELS = ("train", "test")
WRITTEN = ".prepared"
DOCUMENTS = Path(__file__).parent / "pytorch" / "documents.py"
"""By which the jobs read text too."""

_BREAK = re.compile(r"</?(?:p|li|ul|ol|dl|dt|dd|br|h[1-6]|tr|table|note|important)\b[^>]*>")
_TAG = re.compile(r"<[^>]+>")


def main(arguments: Sequence[str]) -> str | None:
    """Write both channels; return what is wrong, if that cannot be done."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0], allow_abbrev=False)
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--text", type=Path, help="folder with your own *.txt and *.jsonl")
    options = parser.parse_args(arguments)
    try:
        earlier = files_of_before(options.out, options.text)
        channels = own_text(options.text) if options.text else documentation()
    except ValueError as error:
        return str(error)
    for file in earlier:
        file.unlink()
    written = {
        f"{channel}/{name}": text
        for channel in CHANNELS
        for name, text in channels[channel].items()
    }
    for channel in CHANNELS:
        (options.out / channel).mkdir(parents=True, exist_ok=True)
    (options.out / WRITTEN).write_text("".join(f"{name}\n" for name in written))
    for name, text in written.items():
        (options.out / name).write_bytes(text.encode())
    return None


def files_of_before(out: Path, texts: Path | None) -> list[Path]:
    """Return what an earlier run wrote into the channels of a folder.

    Raise ValueError if they hold another file, or would lie in the folder with the text.
    """
    if texts and any((out / name).resolve().is_relative_to(texts.resolve()) for name in CHANNELS):
        raise ValueError(f"the channels of --out {out} would lie in --text {texts}: take another")
    listed = out / WRITTEN
    names = listed.read_text().splitlines() if listed.is_file() else []
    files = [file for channel in CHANNELS for file in (out / channel).glob("*")]
    for file in files:
        if file.relative_to(out).as_posix() not in names or not file.is_file():
            raise ValueError(
                f"{file} was not written by this script, and would be learned from too: move it, or"
                " take another --out"
            )
    return files


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


def own_text(folder: Path) -> dict[str, dict[str, str]]:
    """Return the documents below a folder as one file of each channel, `text.jsonl`.

    Raise ValueError if there are fewer than two, or for a file that is not what it should be.
    """
    documents = list(runpy.run_path(str(DOCUMENTS))["documents"](folder))
    if len(documents) < 2:
        raise ValueError(
            f"{folder} has {len(documents)} documents in *.txt and *.jsonl: at least 2 are needed,"
            " one to train and one to test"
        )
    train = [text for number, text in enumerate(documents) if number % TEST_EVERY]
    parts = {"train": train, "test": documents[::TEST_EVERY]}
    return {
        channel: {"text.jsonl": "".join(f"{json.dumps({'text': text})}\n" for text in part)}
        for channel, part in parts.items()
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
