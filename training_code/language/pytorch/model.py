"""A decoder-only transformer, in Llama's layout, and the files it is kept in.

It turns tokens int64 (batch, length) into logits (batch, length, vocabulary). Names and shapes of
its weights are those of transformers' LlamaForCausalLM. A saved model is a folder with
`config.json` and `model.safetensors`, which transformers reads too.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

VOCAB_SIZE = 256
"""Of a model whose tokens are the bytes of UTF-8."""
END_OF_TEXT = 0
"""The byte between two documents: text has none of it, `documents.py` refuses it. Where tokens are
no bytes, `eos_token_id` stands for it.
"""
MAX_DEPTH = 64
MAX_LENGTH_OF_PRODUCTS = 1024
INITIAL_STD = 0.02
HAS_GROUPED_QUERIES = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5)

CONFIG_FILE, WEIGHTS_FILE, METADATA_FILE = "config.json", "model.safetensors", "model.json"
ADAPTER_FOLDER = "adapter"
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
WRITTEN = (
    "code",
    CONFIG_FILE,
    METADATA_FILE,
    WEIGHTS_FILE,
    ADAPTER_FOLDER,
    TOKENIZER_FILE,
    TOKENIZER_CONFIG_FILE,
)
"""What a training leaves at the top of a model; only some have the last three."""
_FIXED = {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False}
_DEFAULTS = {**_FIXED, "model_type": None, "rms_norm_eps": 1e-6, "tie_word_embeddings": False}
"""What transformers' LlamaConfig takes for a key that a file lacks."""
_DTYPES = {"F64": torch.float64, "F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


@dataclass(frozen=True)
class Config:
    """The shape of a model; the fields are named as in transformers' LlamaConfig."""

    vocab_size: int = VOCAB_SIZE
    hidden_size: int = 256
    intermediate_size: int = 896
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    num_key_value_heads: int = 1
    max_position_embeddings: int = 256
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10_000.0
    tie_word_embeddings: bool = True
    eos_token_id: int = END_OF_TEXT

    def __post_init__(self) -> None:
        if self.hidden_size % (2 * self.num_attention_heads):
            raise ValueError(
                f"hidden_size {self.hidden_size} is not an even number for each of"
                f" {self.num_attention_heads} num_attention_heads"
            )
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_attention_heads {self.num_attention_heads} is not a multiple of"
                f" num_key_value_heads {self.num_key_value_heads}"
            )

    @classmethod
    def of_depth(cls, depth: int, max_position_embeddings: int = 256) -> Config:
        """Return the model of `depth` layers: 2 has 1.8 million parameters, 34 has 8.7 billion.

        The proportions are those of Llama 3 (arXiv 2407.21783, table 3): 128 of width a layer, 3.5
        times as much in the middle of a feed-forward network, four query heads a key head. As in
        its models, heads have 64 dimensions up to 16 layers, where the head is tied too, and 128
        above. At 32 it is the 8B model but for the vocabulary.
        """
        if not 1 <= depth <= MAX_DEPTH:
            raise ValueError(f"depth {depth} is not between 1 and {MAX_DEPTH}")
        width, small = 128 * depth, depth <= 16
        heads = width // (64 if small else 128)
        return cls(
            hidden_size=width,
            intermediate_size=width * 7 // 2,
            num_hidden_layers=depth,
            num_attention_heads=heads,
            num_key_value_heads=heads // math.gcd(heads, 4),
            max_position_embeddings=max_position_embeddings,
            tie_word_embeddings=small,
        )

    @property
    def head_dim(self) -> int:
        """Numbers in a query, a key or a value."""
        return self.hidden_size // self.num_attention_heads

    def to_json(self) -> str:
        """Return what transformers expects in `config.json`."""
        fixed = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            **_FIXED,
            "bos_token_id": self.eos_token_id,
        }
        return json.dumps({**fixed, **asdict(self)}, indent=2, sort_keys=True) + "\n"


Rotation = tuple[Tensor, Tensor]
"""Cosine and sine (length, head_dim) of every position's angles; the first half of the sines is
negative.
"""


def as_factor(tensor: Tensor) -> Tensor:
    """Return a tensor in the dtype in which autocast multiplies matrices.

    What several products take is so cast once.
    """
    kind = tensor.device.type
    return tensor.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else tensor


def rotation(config: Config, length: int, like: Tensor) -> Rotation:
    """Return the angles of rotary embeddings (Su et al., arXiv 2104.09864), in `like`'s dtype.

    As in Llama's files for transformers, the first half of a head's numbers is rotated with the
    second half, not each with its neighbour.
    """
    exact = torch.float64 if like.dtype == torch.float64 else torch.float32
    half = torch.arange(0, config.head_dim, 2, device=like.device).to(exact) / config.head_dim
    positions = torch.arange(length, device=like.device).to(exact)
    angles = torch.outer(positions, config.rope_theta**-half)
    cosine, sine = angles.cos().to(like.dtype), angles.sin().to(like.dtype)
    return cosine.repeat(1, 2), torch.cat((-sine, sine), dim=-1)


def rotate(heads: Tensor, angles: Rotation) -> Tensor:
    """Rotate (batch, heads, length, head_dim) by each position's angles."""
    cosine, sine = angles
    return torch.addcmul(heads * cosine, heads.roll(heads.shape[-1] // 2, dims=-1), sine)


def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return the values that each position gathers, causally: (batch, heads, length, head_dim).

    torch's kernel for CPUs is slow in bf16: products of whole matrices take half its time, and the
    memory of all scores, so that they are only for short sequences.
    """
    short = queries.shape[2] <= MAX_LENGTH_OF_PRODUCTS
    if short and queries.device.type == "cpu" and queries.dtype == torch.bfloat16:
        return attend_by_products(queries, keys, values)
    if HAS_GROUPED_QUERIES:  # the kernel shares keys and values, which are not copied
        return functional.scaled_dot_product_attention(
            queries, keys, values, is_causal=True, enable_gqa=True
        )
    group = queries.shape[1] // keys.shape[1]
    keys, values = (each.repeat_interleave(group, dim=1) for each in (keys, values))
    return functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)


def attend_by_products(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return the same in two products for each key head, with all its query heads at once."""
    _, heads, length, size = queries.shape
    group = heads // keys.shape[1]
    later = torch.full((length, length), -math.inf, dtype=values.dtype, device=values.device)
    with torch.autocast(values.device.type, enabled=False):  # which would cast scores to float32
        rows = queries.reshape(-1, group * length, size)
        columns = keys.flatten(0, 1).transpose(1, 2)
        scores = torch.baddbmm(later.triu(1).repeat(group, 1), rows, columns, alpha=size**-0.5)
        gathered = scores.softmax(dim=-1) @ values.flatten(0, 1)
    return gathered.view_as(queries)


def rms_norm(hidden: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return vectors of a mean square of one, times `weight`; in between, float32 or better.

    torch has a kernel of it for GPUs. On a CPU this reads the vectors fewer times than torch does.
    """
    if hidden.device.type != "cpu":
        return functional.rms_norm(hidden, weight.shape, weight, eps)
    exact = torch.promote_types(hidden.dtype, torch.float32)
    norm = torch.linalg.vector_norm(hidden, dim=-1, keepdim=True, dtype=exact)
    scale = (norm * norm / hidden.shape[-1] + eps).rsqrt()
    return (hidden * scale * weight).to(hidden.dtype)


class RMSNorm(nn.Module):  # type: ignore[misc, unused-ignore] # untyped where torch is not installed
    """Scales each vector to a mean square of one (Zhang and Sennrich, arXiv 1910.07467)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the scaled vectors, as factors of the products that take them."""
        return as_factor(rms_norm(hidden, self.weight, self.eps))


class Attention(nn.Module):  # type: ignore[misc, unused-ignore]
    """Causal attention; several query heads share a key and a value (arXiv 2305.13245)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, shared = config.hidden_size, config.num_key_value_heads * config.head_dim
        self.head_dim = config.head_dim
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, shared, bias=False)
        self.v_proj = nn.Linear(width, shared, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, hidden: Tensor, angles: Rotation) -> Tensor:
        """Return what each position gathers from itself and those before it."""
        queries, keys, values = (
            projection(hidden).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        gathered = attend(rotate(queries, angles), rotate(keys, angles), values)
        return self.o_proj(gathered.transpose(1, 2).flatten(2))  # type: ignore[no-any-return, unused-ignore]


class FeedForward(nn.Module):  # type: ignore[misc, unused-ignore]
    """SwiGLU (Shazeer, arXiv 2002.05202)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, middle = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(width, middle, bias=False)
        self.up_proj = nn.Linear(width, middle, bias=False)
        self.down_proj = nn.Linear(middle, width, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return each position's own change."""
        gated = functional.silu(self.gate_proj(hidden)) * self.up_proj(hidden)
        return self.down_proj(gated)  # type: ignore[no-any-return, unused-ignore]


class Layer(nn.Module):  # type: ignore[misc, unused-ignore]
    """Attention and feed-forward network, each after a norm and added to what came in."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = FeedForward(config)
        self.checkpointing = False

    def forward(self, hidden: Tensor, angles: Rotation) -> Tensor:
        """Return hidden (batch, length, width); with checkpointing, compute it again backwards."""
        if self.checkpointing and torch.is_grad_enabled():
            # inside the layer, so that FSDP gathers its weights once for both passes of backward
            return checkpoint(  # type: ignore[no-any-return, unused-ignore]
                self._compute, hidden, angles, use_reentrant=False, preserve_rng_state=False
            )
        return self._compute(hidden, angles)

    def _compute(self, hidden: Tensor, angles: Rotation) -> Tensor:
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), angles)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))  # type: ignore[no-any-return, unused-ignore]


class Decoder(nn.Module):  # type: ignore[misc, unused-ignore]
    """Everything below the head: `model` in transformers' names."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return hidden (batch, length, width)."""
        hidden = self.embed_tokens(tokens)
        cosine, sine = rotation(self.config, tokens.shape[1], hidden)
        # in float32, they would make float32 of what is projected
        angles = as_factor(cosine), as_factor(sine)
        for layer in self.layers:
            hidden = layer(hidden, angles)
        return self.norm(hidden)  # type: ignore[no-any-return, unused-ignore]


class Transformer(nn.Module):  # type: ignore[misc, unused-ignore]
    """The whole model. Its weights are PyTorch's own draw until `spread` or `load` sets them.

    A tied head has no weight of its own: neither here nor in the file.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.model = Decoder(config)
        if not config.tie_word_embeddings:
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits (batch, length, vocabulary) of tokens int64 (batch, length)."""
        hidden = self.model(tokens)
        if not self.config.tie_word_embeddings:
            return self.lm_head(hidden)  # type: ignore[no-any-return, unused-ignore]
        return functional.linear(hidden, self.model.embed_tokens.weight)


def initial_weight(config: Config, name: str, shape: torch.Size, seed: int) -> Tensor:
    """Return a weight before training, float32: it depends on seed and name alone.

    So a rank that keeps a part of each weight can draw one after the other. What adds to the
    residual stream is smaller in deeper models (Radford et al. 2019, section 2.3).
    """
    if name.endswith("norm.weight"):
        return torch.ones(shape)
    adds = name.endswith(("o_proj.weight", "down_proj.weight"))
    std = INITIAL_STD / math.sqrt(2 * config.num_hidden_layers) if adds else INITIAL_STD
    return torch.randn(shape, generator=seeded(seed, name)) * std


def seeded(seed: int, name: str) -> torch.Generator:
    """Return the source of chance for what has this name."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def continuation(
    model: Transformer, prompt: Sequence[int], count: int, seed: int, temperature: float
) -> Iterator[int]:
    """Yield up to `count` tokens that follow the prompt; fewer, where the text ends.

    The same seed gives the same tokens; temperature 0 takes the likeliest one each time. What is
    farther back than `max_position_embeddings` tokens is forgotten.
    """
    device, end = model.model.embed_tokens.weight.device, model.config.eos_token_id
    generator = torch.Generator().manual_seed(seed)
    tokens = [end, *prompt]
    for _ in range(count):
        window = tokens[-model.config.max_position_embeddings :]
        with torch.inference_mode():
            logits = model(torch.tensor([window], device=device))[0, -1].double().cpu()
        if temperature > 0:
            shares = functional.softmax(logits / temperature, dim=-1)
            token = int(torch.multinomial(shares, 1, generator=generator))
        else:
            token = int(logits.argmax())
        if token == end:
            break
        tokens.append(token)
        yield token


def save(config: Config, state: Mapping[str, Tensor], folder: Path) -> None:
    """Write `config.json` and `model.safetensors`, the weights whole or not at all.

    `state` is a whole state_dict of a Transformer. Raise ValueError if some weights are not numbers
    any more.
    """
    broken = [name for name, tensor in state.items() if not bool(tensor.isfinite().all())]
    if broken:
        raise ValueError(
            f"{broken[0]} is not finite, no model is saved: try a smaller --learning-rate"
        )
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{WEIGHTS_FILE}.partial"
    write_safetensors(state, partial)
    # SageMaker may pack the folder of a job that is killed now.
    partial.replace(folder / WEIGHTS_FILE)
    (folder / CONFIG_FILE).write_text(config.to_json())


def load(folder: Path) -> Transformer:
    """Read what `save` wrote, on the CPU. Raise ValueError if the folder holds no model of ours."""
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} holds no model: {name} is missing")
    try:
        with torch.device("meta"):
            model = Transformer(read_config(folder))
        model.load_state_dict(read_safetensors(folder / WEIGHTS_FILE), assign=True)
    except (KeyError, TypeError, ValueError, RuntimeError, OSError, struct.error) as error:
        raise ValueError(f"{folder} holds a damaged model: {error}") from error
    return model.eval()  # type: ignore[no-any-return, unused-ignore]


def read_config(folder: Path) -> Config:
    """Read `config.json`, ours or one of transformers for a Llama.

    Raise ValueError if a model with it computes anything that ours does not.
    """
    file = folder / CONFIG_FILE
    values = {**_DEFAULTS, **json.loads(file.read_text())}
    # transformers 5 keeps both together, earlier ones apart
    rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
    values.setdefault("rope_theta", rope.get("rope_theta", 10_000.0))
    values.setdefault("num_key_value_heads", values.get("num_attention_heads"))
    if isinstance(values.get("eos_token_id"), list):  # any of them ends an answer there
        values["eos_token_id"] = values["eos_token_id"][0]
    missing = [field.name for field in fields(Config) if field.name not in values]
    if missing:
        raise ValueError(f"{file} lacks {missing[0]}")
    config = Config(**{field.name: values[field.name] for field in fields(Config)})
    computed = {
        **{name: values[name] for name in ("model_type", *_FIXED)},
        "head_dim": values.get("head_dim") or config.head_dim,
        "rope_type": rope.get("rope_type", rope.get("type", "default")),  # its older name
    }
    ours = {"model_type": "llama", **_FIXED, "head_dim": config.head_dim, "rope_type": "default"}
    for name, value in computed.items():
        if value != ours[name]:
            raise ValueError(f"{file} has {name} {value!r}: only {ours[name]!r} is computed here")
    return config


def write_safetensors(state: Mapping[str, Tensor], file: Path) -> None:
    """Write tensors as safetensors does (github.com/huggingface/safetensors, "Format").

    That is the length of a JSON header as eight bytes, the header, and the tensors' bytes one after
    the other. A package is not needed for it, which AWS's images for PyTorch lack.
    """
    names = {dtype: name for name, dtype in _DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in sorted(state.items()):
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": names[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in sorted(state.items()):
            raw = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
            stream.write(memoryview(raw.numpy()))


def read_safetensors(file: Path) -> dict[str, Tensor]:
    """Read tensors from a file of safetensors. Raise ValueError for one that is cut off."""
    return dict(tensors_of(file))


def tensors_of(file: Path) -> Iterator[tuple[str, Tensor]]:
    """Yield name and tensor, one after the other, so that one at a time is in memory.

    Raise ValueError for a file that is cut off.
    """
    with file.open("rb") as stream:
        header = _header(stream, file)
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            begin, end = entry["data_offsets"]
            raw = torch.frombuffer(bytearray(stream.read(end - begin)), dtype=torch.uint8)
            yield name, raw.view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])


def shapes_of(file: Path) -> dict[str, list[int]]:
    """Return the shape of each tensor in a file. Raise ValueError for one that is cut off."""
    with file.open("rb") as stream:
        return {name: entry["shape"] for name, entry in _header(stream, file).items()}


def _header(stream: IO[bytes], file: Path) -> dict[str, Any]:
    (length,) = struct.unpack("<Q", stream.read(8))
    size = file.stat().st_size - 8 - length
    if size < 0:
        raise ValueError(f"{file.name} is shorter than its header says")
    header: dict[str, Any] = json.loads(stream.read(length))
    header.pop("__metadata__", None)
    if size != max((entry["data_offsets"][1] for entry in header.values()), default=0):
        raise ValueError(f"{file.name} has {size} bytes of tensors, not what its header says")
    return header
