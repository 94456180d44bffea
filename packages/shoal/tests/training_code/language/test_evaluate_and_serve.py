"""What is measured of a model, and how it answers: with models that were never trained."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Runtime
from shoal.aws.model_archive import content_sha256, sha256

SCRIPT = Path(__file__).with_name("scripts") / "measure_and_serve.py"
TEXT = b"The shoal turns as one. " * 5


SEND_TEXT = 'send {"inputs": TEXT}, a text without zero bytes or lone surrogates'
REFUSALS = [
    *3 * [SEND_TEXT],
    "there is no parameter 'top_k'; there are: max_new_tokens, temperature, seed",
    "parameter max_new_tokens must be a whole number from 1 to 1024, not 0",
    "parameter temperature must be 0, or a number from 0.001 to 10, not -1",
    "parameter temperature must be 0, or a number from 0.001 to 10, not 1e-310",
    "parameter seed must be a whole number from 0 to 2^63 - 1, not True",
    "stream must be true or false, not 1",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("measured")


@pytest.fixture(scope="module")
def results(runtime: Runtime, folder: Path) -> dict[str, Any]:
    return runtime.answer(runtime.alone(SCRIPT, folder, folder / "results.json"), folder)


def test_every_byte_is_predicted_once_after_half_a_context(results: dict[str, Any]) -> None:
    assert len(results["windows"]) == len(TEXT)
    assert results["windows"] == pytest.approx(results["one_by_one"], rel=1e-4)
    assert results["of_a_large_vocabulary"] == pytest.approx(results["windows"], rel=1e-4)
    assert results["of_zeros"]["bits_per_byte"] == pytest.approx(8)  # it knows nothing


def test_the_report_has_peers_and_the_digests_of_all(results: dict[str, Any], folder: Path) -> None:
    metrics = {name: each["value"] for name, each in results["report"]["metrics"].items()}
    xz = lzma.compress(TEXT, preset=9 | lzma.PRESET_EXTREME)
    assert metrics["bytes"] == len(TEXT)
    assert metrics["gzip_bits_per_byte"] == 8 * len(gzip.compress(TEXT, 9)) / len(TEXT)
    assert metrics["xz_bits_per_byte"] == 8 * len(xz) / len(TEXT)
    archive = folder / "random" / "model.tar.gz"
    model = results["report"]["model"]
    with archive.open("rb") as stream:
        assert model["content_sha256"] == content_sha256(stream)
    with archive.open("rb") as stream:
        assert model["archive_sha256"] == sha256(stream)
    assert model["archive_composite_sha256"].endswith("-1")


def test_an_answer_is_its_seeds_and_names_the_model(results: dict[str, Any]) -> None:
    """A stream has the same text in pieces."""
    first, again, other = (each["generated_text"] for each in results["answers"])
    assert first == again != other
    kind, *pieces, last = results["streamed"]
    assert (kind, last) == ("application/jsonlines", results["answers"][0])
    assert len(pieces) > 1
    assert "".join(piece["token"]["text"] for piece in pieces) == first
    assert last["model"] == {
        "training_job_name": "job-of-the-test",
        "content_sha256": results["report"]["model"]["content_sha256"],
    }


def test_a_bad_request_is_told_what_to_send(results: dict[str, Any]) -> None:
    not_json, *others = results["refusals"]
    assert not_json.startswith("the request is not JSON: ")
    assert others == REFUSALS
    assert results["csv"] == "content type 'text/csv' is not supported; send application/json"
