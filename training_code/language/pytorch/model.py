"""A decoder-only transformer, in Llama's layout, and the files it is kept in.

It turns tokens int64 (batch, length), which are the bytes of UTF-8, into logits (batch, length,
vocabulary). A saved model is a folder with `config.json` and `model.safetensors`, in the names and
shapes of transformers' LlamaForCausalLM, which reads it too.
"""

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from config import Config
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

MAX_LENGTH_OF_PRODUCTS = 1024
HAS_GROUPED_QUERIES = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5)

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
FUSED = {
    "self_attn.qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "mlp.gate_up_proj": ("mlp.gate_proj", "mlp.up_proj"),
}
"""Matrices that are one product here, and their parts in Llama's files."""
_DTYPES = {"F64": torch.float64, "F32": torch.float32, "BF16": torch.bfloat16}

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

    A single query may follow more keys. torch's kernel for CPUs is slow in bf16: products of whole
    matrices take half its time, and the memory of all scores, so that they are only for short
    sequences.
    """
    length = queries.shape[2]
    causal = length == keys.shape[2]
    on_cpu = queries.device.type == "cpu" and queries.dtype == torch.bfloat16
    if on_cpu and causal and length <= MAX_LENGTH_OF_PRODUCTS:
        return attend_by_products(queries, keys, values)
    if HAS_GROUPED_QUERIES:  # the kernel shares keys and values, which are not copied
        return functional.scaled_dot_product_attention(
            queries, keys, values, is_causal=causal, enable_gqa=True
        )
    group = queries.shape[1] // keys.shape[1]
    keys, values = (each.repeat_interleave(group, dim=1) for each in (keys, values))
    return functional.scaled_dot_product_attention(queries, keys, values, is_causal=causal)


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


Cache = dict[str, Tensor]
"""Of one layer: `keys` and `values` (batch, heads, length, head_dim) of the positions so far."""


class Attention(nn.Module):  # type: ignore[misc, unused-ignore]
    """Causal attention; several query heads share a key and a value (arXiv 2305.13245)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.sizes = (config.hidden_size, config.shared_size, config.shared_size)
        self.head_dim = config.head_dim
        self.qkv_proj = nn.Linear(config.hidden_size, sum(self.sizes), bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, hidden: Tensor, angles: Rotation, cache: Cache | None = None) -> Tensor:
        """Return what each position gathers from itself and those before it."""
        queries, keys, values = (
            each.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for each in self.qkv_proj(hidden).split(self.sizes, dim=-1)
        )
        queries, keys = rotate(queries, angles), rotate(keys, angles)
        values = values.contiguous()  # else backward would keep all three
        if cache is not None:
            for name, new in (("keys", keys), ("values", values)):
                cache[name] = torch.cat((cache[name], new), dim=2) if name in cache else new
            keys, values = cache["keys"], cache["values"]
        gathered = attend(queries, keys, values)
        return self.o_proj(gathered.transpose(1, 2).flatten(2))  # type: ignore[no-any-return, unused-ignore]


class FeedForward(nn.Module):  # type: ignore[misc, unused-ignore]
    """SwiGLU (Shazeer, arXiv 2002.05202)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, middle = config.hidden_size, config.intermediate_size
        self.gate_up_proj = nn.Linear(width, 2 * middle, bias=False)
        self.down_proj = nn.Linear(middle, width, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return each position's own change."""
        gate, up = self.gate_up_proj(hidden).chunk(2, dim=-1)
        return self.down_proj(functional.silu(gate) * up)  # type: ignore[no-any-return, unused-ignore]


class Layer(nn.Module):  # type: ignore[misc, unused-ignore]
    """Attention and feed-forward network, each after a norm and added to what came in."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = FeedForward(config)
        self.checkpointing = False

    def forward(self, hidden: Tensor, angles: Rotation, cache: Cache | None = None) -> Tensor:
        """Return hidden (batch, length, width); with checkpointing, compute it again backwards."""
        if self.checkpointing and torch.is_grad_enabled():
            # inside the layer, so that FSDP gathers its weights once for both passes of backward
            return checkpoint(  # type: ignore[no-any-return, unused-ignore]
                self._compute, hidden, angles, use_reentrant=False, preserve_rng_state=False
            )
        return self._compute(hidden, angles, cache)

    def _compute(self, hidden: Tensor, angles: Rotation, cache: Cache | None = None) -> Tensor:
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), angles, cache)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))  # type: ignore[no-any-return, unused-ignore]


class Decoder(nn.Module):  # type: ignore[misc, unused-ignore]
    """Everything below the head: `model` in transformers' names."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, tokens: Tensor, caches: Sequence[Cache] | None = None) -> Tensor:
        """Return hidden (batch, length, width)."""
        hidden = self.embed_tokens(tokens)
        past = caches[0]["keys"].shape[2] if caches and caches[0] else 0
        cosine, sine = rotation(self.config, past + tokens.shape[1], hidden)
        # in float32, they would make float32 of what is projected
        angles = as_factor(cosine[past:]), as_factor(sine[past:])
        for index, layer in enumerate(self.layers):
            hidden = layer(hidden, angles, *([caches[index]] if caches else []))
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

    def forward(
        self,
        tokens: Tensor,
        targets: Tensor | None = None,
        caches: Sequence[Cache] | None = None,
    ) -> Tensor:
        """Return logits (batch, length, vocabulary) of tokens int64 (batch, length).

        With `targets`, the tokens after each, return the mean loss instead, in float32 or better.
        `caches`, one for each layer, have what came before these tokens, and take them in.
        """
        hidden = self.model(tokens, caches)
        if self.config.tie_word_embeddings:
            logits = functional.linear(hidden, self.model.embed_tokens.weight)
        else:
            logits = self.lm_head(hidden)
        if targets is None:
            return logits  # type: ignore[no-any-return, unused-ignore]
        exact = torch.promote_types(logits.dtype, torch.float32)
        return functional.cross_entropy(logits.flatten(0, 1).to(exact), targets.flatten())


def parts_of(config: Config, name: str, rows: int) -> dict[str, int]:
    """Return the names that a weight's parts have in Llama's files, and the rows of each."""
    for fused, parts in FUSED.items():
        if fused in name:
            shared = config.shared_size
            sizes = (rows - 2 * shared, shared, shared) if len(parts) == 3 else (rows // 2,) * 2
            return {name.replace(fused, part): n for part, n in zip(parts, sizes, strict=True)}
    return {name: rows}


def continuation(
    model: Transformer, prompt: Sequence[int], count: int, seed: int, temperature: float
) -> Iterator[int]:
    """Yield up to `count` tokens that follow the prompt; fewer, where the text ends.

    The same seed gives the same tokens; temperature 0 takes the likeliest one each time. What is
    farther back than `max_position_embeddings` tokens is forgotten.
    """
    device, end = model.model.embed_tokens.weight.device, model.config.eos_token_id
    generator = torch.Generator().manual_seed(seed)
    tokens, length = [end, *prompt], model.config.max_position_embeddings
    caches: list[Cache] | None = [{} for _ in model.model.layers]
    known = 0
    for _ in range(count):
        if len(tokens) > length:  # all positions move, and nothing that was computed holds
            caches, known = None, len(tokens) - length
        with torch.inference_mode():
            new = torch.tensor([tokens[known:]], device=device)
            logits = model(new, caches=caches)[0, -1].double().cpu()
        known = len(tokens)
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
    parts: dict[str, Tensor] = {}
    for name, tensor in state.items():
        rows = parts_of(config, name, len(tensor))
        parts |= zip(rows, tensor.split([*rows.values()]), strict=True)
    write_safetensors(parts, partial)
    # SageMaker may pack the folder of a job that is killed now.
    partial.replace(folder / WEIGHTS_FILE)
    (folder / CONFIG_FILE).write_text(config.to_json())


def load(folder: Path) -> Transformer:
    """Read what `save` wrote, on the CPU. Raise ValueError if the folder holds no model of ours."""
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} holds no model: {name} is missing")
    try:
        values = json.loads((folder / CONFIG_FILE).read_text())
        config = Config(**{field.name: values[field.name] for field in fields(Config)})
        with torch.device("meta"):
            model = Transformer(config)
        saved = read_safetensors(folder / WEIGHTS_FILE)
        state = {
            name: torch.cat([saved.pop(part) for part in parts_of(config, name, len(each))])
            for name, each in model.state_dict().items()
        }
        model.load_state_dict(state | saved, assign=True)
    except (KeyError, TypeError, ValueError, RuntimeError, OSError, struct.error) as error:
        raise ValueError(f"{folder} holds a damaged model: {error}") from error
    return model.eval()  # type: ignore[no-any-return, unused-ignore]


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
    with file.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        header: dict[str, Any] = json.loads(stream.read(length))
        content = bytearray(stream.read())
    header.pop("__metadata__", None)
    if len(content) != max((entry["data_offsets"][1] for entry in header.values()), default=0):
        raise ValueError(f"{file.name} has {len(content)} bytes of tensors, not as its header says")
    raw = torch.frombuffer(content, dtype=torch.uint8)
    return {
        name: raw[slice(*entry["data_offsets"])]
        .view(_DTYPES[entry["dtype"]])
        .reshape(entry["shape"])
        for name, entry in header.items()
    }
