"""The sizes of a model, without torch: `plan.py` counts memory by them, where there is none."""

import json
import math
from dataclasses import asdict, dataclass

END_OF_TEXT = 0
"""The byte between two documents: text has none of it, `data.py` refuses it."""
MAX_DEPTH = 64


@dataclass(frozen=True)
class Config:
    """The shape of a model; the fields are named as in transformers' LlamaConfig."""

    vocab_size: int = 256
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
    def of_depth(cls, depth: int, max_position_embeddings: int = 256) -> "Config":
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

    @property
    def shared_size(self) -> int:
        """Numbers in all keys of a position, and in all its values."""
        return self.num_key_value_heads * self.head_dim

    @property
    def layer_weights(self) -> int:
        """Weights of a layer."""
        width = self.hidden_size
        attention = 2 * width * (width + self.shared_size)
        return attention + 3 * width * self.intermediate_size + 2 * width

    @property
    def other_weights(self) -> int:
        """Weights outside the layers."""
        tables = 1 if self.tie_word_embeddings else 2
        return (tables * self.vocab_size + 1) * self.hidden_size

    @property
    def weights(self) -> int:
        """Weights of the model."""
        return self.num_hidden_layers * self.layer_weights + self.other_weights

    def to_json(self) -> str:
        """Return what transformers expects in `config.json`."""
        fixed = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
            "bos_token_id": self.eos_token_id,
        }
        return json.dumps({**fixed, **asdict(self)}, indent=2, sort_keys=True) + "\n"
