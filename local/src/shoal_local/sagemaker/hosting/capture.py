"""Data capture: a sample of an endpoint's invocations in; JSON Lines in S3, in the layout and
format that AWS documents, out.

Source: developer guide, "Capture data from real-time endpoint"
(model-monitor-data-capture-endpoint.html): its path and its sample lines. Files are
`DESTINATION/ENDPOINT/VARIANT/yyyy/mm/dd/hh/NAME.jsonl` and are written in batches with the model's
execution role. The page does not say what NAME is, which time zone the hours are in (here UTC), how
often a file is written (here each minute), or how `customAttributes` and `inferenceId` look: those
are ours.
"""

from __future__ import annotations

import base64
import json
import logging
import queue
import random
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.hosting.server import Answer
from shoal_local.sagemaker.jobs import storage
from shoal_local.sagemaker.references import assume
from shoal_local.sagemaker.shapes import Document

FILE_EVERY_S = 60.0
SOONEST_S = 0.5
_MODES = {"Input": ("Input",), "Output": ("Output",), "InputAndOutput": ("Input", "Output")}
_CUSTOM, _INFERENCE_ID = "x-amzn-sagemaker-custom-attributes", "x-amzn-sagemaker-inference-id"
_random = random.SystemRandom()
_log = logging.getLogger(__name__)


class Capture:
    """The capture of one fleet; `close()` writes what is left.

    `refused` says why nothing more is written, or None.
    """

    def __init__(self, core: Core, endpoint: str, config: Document, role_arn: str) -> None:
        self._core, self._endpoint, self._config, self._role = core, endpoint, config, role_arn
        self._modes = {
            mode for option in config["CaptureOptions"] for mode in _MODES[option["CaptureMode"]]
        }
        self._taken: queue.SimpleQueue[tuple[str, Document] | None] = queue.SimpleQueue()
        self.refused: str | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"capture of {endpoint}", daemon=True
        )
        self._thread.start()

    def offer(self, variant: str, body: bytes, headers: Mapping[str, str], answer: Answer) -> None:
        """An invocation that was answered; the sampling percentage decides whether it is kept."""
        if _random.random() * 100 < self._config["InitialSamplingPercentage"]:
            self._taken.put((variant, self._event(body, headers, answer)))

    def _event(self, body: bytes, headers: Mapping[str, str], answer: Answer) -> Document:
        captured: Document = {}
        if "Input" in self._modes:
            captured["endpointInput"] = self._side("INPUT", headers.get("content-type", ""), body)
        if "Output" in self._modes:
            captured["endpointOutput"] = self._side("OUTPUT", answer.content_type, answer.body)
        about: Document = {
            "eventId": str(uuid.uuid4()),
            "inferenceTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        about |= {"customAttributes": [headers[_CUSTOM]]} if _CUSTOM in headers else {}
        about |= {"inferenceId": headers[_INFERENCE_ID]} if _INFERENCE_ID in headers else {}
        return {"captureData": captured, "eventMetadata": about, "eventVersion": "0"}

    def _side(self, mode: str, content_type: str, data: bytes) -> Document:
        encoding = self._encoding(content_type)
        written = (
            base64.b64encode(data).decode()
            if encoding == "BASE64"
            else data.decode(errors="replace")
        )
        return {
            "observedContentType": content_type,
            "mode": mode,
            "data": written,
            "encoding": encoding,
        }

    def _encoding(self, content_type: str) -> str:
        """CSV and JSON are kept as text where the configuration names their types; everything else
        in base64.
        """
        plain, given = (
            content_type.partition(";")[0].strip(),
            self._config.get("CaptureContentTypeHeader", {}),
        )
        if plain in given.get("JsonContentTypes", []):
            return "JSON"
        return "CSV" if plain in given.get("CsvContentTypes", []) else "BASE64"

    def _run(self) -> None:
        open_still = True
        while open_still:
            batch, open_still = self._batch()
            by_variant: defaultdict[str, list[Document]] = defaultdict(list)
            for variant, event in batch:
                by_variant[variant].append(event)
            for variant, events in by_variant.items():
                self._write(variant, events)

    def _batch(self) -> tuple[list[tuple[str, Document]], bool]:
        """One at least, and what comes until the file is due; False at the end."""
        batch: list[tuple[str, Document]] = []
        due = 0.0
        while not batch or time.monotonic() < due:
            try:
                taken = self._taken.get(timeout=max(0.0, due - time.monotonic()) if batch else None)
            except queue.Empty:
                break
            if taken is None:
                return batch, False
            due = due or time.monotonic() + max(
                SOONEST_S, FILE_EVERY_S / self._core.settings.hosting_speed
            )
            batch.append(taken)
        return batch, True

    def _write(self, variant: str, events: Sequence[Document]) -> None:
        now = datetime.now(UTC)
        bucket, prefix = storage.split_uri(self._config["DestinationS3Uri"])
        folder = "/".join(part for part in (prefix.strip("/"), self._endpoint, variant) if part)
        key = f"{folder}/{now:%Y/%m/%d/%H}/{now:%M-%S}-{now.microsecond // 1000:03d}-{uuid.uuid4()}.jsonl"  # noqa: E501
        lines = "".join(f"{json.dumps(event)}\n" for event in events).encode()
        kms = self._config.get("KmsKeyId")
        encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms} if kms else {}
        try:
            credentials = assume(self._core, self._role, f"SageMaker-{self._endpoint}")
            self._core.context.clients("s3", credentials).put_object(
                Bucket=bucket, Key=key, Body=lines, **encryption
            )
        except (
            ClientError,
            BotoCoreError,
        ) as refused:  # invocations go on: the capture has stopped, and DescribeEndpoint says so
            self.refused = str(refused)
            _log.warning("data capture of %s: %s", self._endpoint, refused)

    def close(self) -> None:
        """Write what is left."""
        self._taken.put(None)
        self._thread.join(timeout=30)


def capture_of(core: Core, endpoint: str, config: Document, role_arn: str) -> Capture | None:
    """The capture that an endpoint configuration asks for."""
    wanted = config.get("DataCaptureConfig")
    return (
        Capture(core, endpoint, wanted, role_arn)
        if wanted and wanted.get("EnableCapture", True)
        else None
    )


def summary(config: Document, refused: str | None) -> Document:
    """DataCaptureConfigSummary."""
    wanted = config["DataCaptureConfig"]
    enabled = wanted.get("EnableCapture", True)
    return {
        "EnableCapture": enabled,
        "CaptureStatus": "Started" if enabled and refused is None else "Stopped",
        "CurrentSamplingPercentage": wanted["InitialSamplingPercentage"],
        "DestinationS3Uri": wanted["DestinationS3Uri"],
        "KmsKeyId": wanted.get("KmsKeyId", ""),
    }
