"""The endpoint's code: a request's text is continued, the same way for the same seed.

SageMaker's PyTorch serving container looks for these four functions. A request is JSON in the form
of Hugging Face's servers, `{"inputs": TEXT, "parameters": {"max_new_tokens": 64, "temperature":
0.8, "seed": 1}, "stream": false}`. The answer is JSON, which says which model gave it. As a stream
it is a line of JSON per piece of text, `{"token": {"text": TEXT}}`, and then the whole answer,
which is the form of DJL's servers.
"""

import codecs
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from common.archive import identity_of
from common.served import JSON, answer_type, body_type, json_of
from config import END_OF_TEXT
from model import Transformer, continuation, load

JSON_LINES = "application/jsonlines"
MAX_NEW_TOKENS = 1024
"""More take longer than an endpoint may."""
_LIMITS: dict[str, tuple[Any, float, float, str]] = {
    "max_new_tokens": (int, 1, MAX_NEW_TOKENS, f"a whole number from 1 to {MAX_NEW_TOKENS}"),
    # divided by 1e-310, logits are infinite
    "temperature": ((int, float), 0.001, 10, "0, or a number from 0.001 to 10"),
    "seed": (int, 0, 2**63 - 1, "a whole number from 0 to 2^63 - 1"),
}
"""By parameter: type, least and most, and both in words."""
_NO_TEXT = re.compile(f"[{chr(END_OF_TEXT)}\ud800-\udfff]")
MIN_WIDTH_FOR_THREADS = 1024
"""Narrower models give a CPU's threads so little that they wait for each other most of the time."""


@dataclass(frozen=True)
class Served:
    """A model, and what says which one it is."""

    model: Transformer
    identity: dict[str, Any]


@dataclass(frozen=True)
class Request:
    """What is continued, and how."""

    prompt: str
    max_new_tokens: int = 64
    temperature: float = 0.8
    """0 takes the likeliest token each time."""
    seed: int = 1
    stream: bool = False
    """Whether each piece of text is sent at once."""


def model_fn(model_dir: str) -> Served:
    """Read the model that the archive was unpacked to."""
    folder = Path(model_dir)
    return Served(on_its_device(load(folder)), identity_of(folder))


def on_its_device(model: Transformer) -> Transformer:
    """Return the model on the GPU, or on as many threads of the CPU as it is worth, which computes
    in float32 what was saved in bf16.
    """
    if torch.cuda.is_available():
        return model.cuda()  # type: ignore[no-any-return, unused-ignore]
    if model.model.embed_tokens.weight.dtype == torch.bfloat16:
        model = model.float()
    if model.config.hidden_size < MIN_WIDTH_FOR_THREADS:
        torch.set_num_threads(1)
    return model


def input_fn(body: bytes | bytearray | str, content_type: str) -> Request:
    """Return the request. Raise ValueError that says what is wrong with another one."""
    body_type(content_type, (JSON,))
    request = json_of(body)
    text = request.get("inputs") if isinstance(request, dict) else None
    if not isinstance(text, str) or _NO_TEXT.search(text):
        raise ValueError('send {"inputs": TEXT}, a text without zero bytes or lone surrogates')
    stream = request.get("stream", False)
    if not isinstance(stream, bool):
        raise ValueError(  # noqa: TRY004 (of the request, as all others)
            f"stream must be true or false, not {stream!r}"
        )
    parameters = _parameters(request.get("parameters") or {})
    return Request(text, **parameters, stream=stream)


def predict_fn(request: Request, served: Served, context: Any = None) -> dict[str, Any]:
    """Return the continuation, and the identity of the model that gave it.

    `context` is TorchServe's, by which parts are sent.
    """
    tokens = continuation(
        served.model,
        request.prompt.encode(),
        request.max_new_tokens,
        request.seed,
        request.temperature,
    )
    # a byte of a character that is not whole yet becomes U+FFFD, in the end
    pieces = codecs.iterdecode((bytes([token]) for token in tokens), "utf-8", "replace")
    text = ""
    for piece in pieces:
        text += piece
        if request.stream:
            _send(piece, context)
    return {"generated_text": text, "model": served.identity}


def _send(piece: str, context: Any) -> None:
    """Send a piece of text through TorchServe, which has the connection."""
    from ts.handler_utils.utils import (  # type: ignore[import-not-found, unused-ignore]
        send_intermediate_predict_response,
    )

    line = json.dumps({"token": {"text": piece}}) + "\n"
    context.set_response_content_type(0, JSON_LINES)
    send_intermediate_predict_response([line], context.request_ids, "", 200, context)


def output_fn(prediction: dict[str, Any], accept: str) -> str:
    """Return the answer. Raise ValueError if the client does not accept JSON."""
    answer_type(accept, (JSON,))
    return json.dumps(prediction)


def _parameters(parameters: Any) -> dict[str, Any]:
    values = parameters if isinstance(parameters, dict) else {"parameters": parameters}
    for name, value in values.items():
        if name not in _LIMITS:
            raise ValueError(f"there is no parameter {name!r}; there are: {', '.join(_LIMITS)}")
        kind, least, most, allowed = _LIMITS[name]
        is_number = isinstance(value, kind) and not isinstance(value, bool)
        is_zero = name == "temperature" and value == 0
        if not (is_number and (is_zero or least <= value <= most)):
            raise ValueError(f"parameter {name} must be {allowed}, not {value!r}")
    return values
