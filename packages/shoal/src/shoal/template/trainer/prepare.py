"""Writes train/*.jsonl and test/*.jsonl below `--out FOLDER`: what botocore says of the operations
of AWS services, as text and as messages. A trainer reads one of the two.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

import botocore.session

SERVICES = {"train": ("ec2", "iam", "rds", "s3", "sagemaker"), "test": ("athena",)}


def main() -> None:
    """Write both channels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    for channel, services in SERVICES.items():
        (folder / channel).mkdir(parents=True, exist_ok=True)
        for service in services:
            lines = "".join(f"{json.dumps(record)}\n" for record in records(service))
            (folder / channel / f"{service}.jsonl").write_text(lines)


def records(service: str) -> Iterator[dict[str, object]]:
    """Yield each operation of a service with the beginning of its description."""
    model = botocore.session.get_session().get_service_model(service)
    for name in model.operation_names:
        plain = re.sub("<[^>]+>", " ", model.operation_model(name).documentation)
        text = " ".join(plain.split())[:300]
        said = {"user": f"{name}?", "assistant": text}
        messages = [{"role": role, "content": content} for role, content in said.items()]
        yield {"text": f"{name}: {text}", "messages": messages}


if __name__ == "__main__":
    main()
