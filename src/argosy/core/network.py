"""A network as the cost model sees it: a stack of like layers between two ends."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """A transformer of any common shape. Counts are of elements, never of bytes."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int  # width inside one MLP, or inside one expert
    vocab: int
    gated: bool = False  # three MLP matrices (SwiGLU) instead of two
    causal: bool = True  # False: an encoder
    tied: bool = True  # the head uses the embedding's matrix
    positions: int = 0  # learned position vectors
    cross_layers: int = 0  # layers of a decoder that also look at the encoder
    experts: int = 0  # 0: dense
    active: int = 1  # experts that see a token
    head_width: int = 0  # per head; 0: hidden / heads

    @property
    def head(self) -> int:
        return self.head_width or self.hidden // self.heads

    @property
    def attention_parameters(self) -> int:
        """Query and output are hidden x (heads head), key and value hidden x (kv_heads head)."""
        one = 2 * self.hidden * self.head * (self.heads + self.kv_heads)
        return one + one * self.cross_layers // self.layers

    @property
    def mlp_parameters(self) -> int:
        """Of one expert; of the one MLP where the network is dense."""
        return (3 if self.gated else 2) * self.hidden * self.ffn

    @property
    def layer_parameters(self) -> int:
        """Matrices, the router, two norms and the biases."""
        router = self.experts * self.hidden
        small = 8 * self.hidden + (0 if self.gated else self.ffn)
        return (
            self.attention_parameters + max(1, self.experts) * self.mlp_parameters + router + small
        )

    @property
    def active_layer_parameters(self) -> int:
        """Those of one layer's matrices that a token is multiplied with."""
        return self.attention_parameters + self.active * self.mlp_parameters

    @property
    def embedding_parameters(self) -> int:
        return (self.vocab + self.positions) * self.hidden

    @property
    def head_parameters(self) -> int:
        """Beyond the embedding's."""
        return 0 if self.tied else self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        return (
            self.layers * self.layer_parameters + self.embedding_parameters + self.head_parameters
        )


def of_size(parameters: float, *, vocab: int = 50257, layers: int = 0, hidden: int = 0) -> Network:
    """The usual shape of so many parameters where only the size, or a part of the shape, is known.

    A dense layer has 12 hidden^2 parameters and published models keep hidden near 128 layers
    (GPT-3's table, Llama's), so parameters = 12 layers hidden^2 with hidden = 128 layers.
    """
    if hidden and not layers:
        layers = max(1, round((parameters - vocab * hidden) / (12 * hidden**2)))
    if layers and not hidden:
        hidden = round((parameters / (12 * layers)) ** 0.5)
    hidden = hidden or round((128 * parameters / 12) ** (1 / 3))
    layers = layers or max(1, round(hidden / 128))
    heads = max(1, round(hidden / 128)) if hidden >= 1024 else max(1, round(hidden / 64))
    hidden = max(heads, hidden // heads * heads)
    return Network(
        layers=layers, hidden=hidden, heads=heads, kv_heads=heads, ffn=4 * hidden, vocab=vocab
    )
