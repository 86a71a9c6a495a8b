"""Counts of a network's parameters, against sums by hand."""

from dataclasses import replace

import pytest
from fakes.cost import NETWORK, network

from argosy.core.network import of_size


def test_a_dense_network_is_counted_matrix_by_matrix() -> None:
    # query, key, value, output: 4 x 16; MLP 2 x 4 x 16; norms and biases 8 x 4 + 16
    assert NETWORK.attention_parameters == 64
    assert NETWORK.mlp_parameters == 128
    assert NETWORK.layer_parameters == 64 + 128 + 48
    assert NETWORK.active_layer_parameters == 64 + 128
    assert NETWORK.embedding_parameters == 40
    assert NETWORK.parameters == 2 * 240 + 40


def test_shared_keys_a_gate_and_an_untied_head_change_the_count() -> None:
    other = network(kv_heads=1, gated=True, tied=False, positions=8)

    assert other.attention_parameters == 48
    assert other.mlp_parameters == 192
    assert other.layer_parameters == 48 + 192 + 32
    assert other.embedding_parameters == (10 + 8) * 4
    assert other.head_parameters == 40


def test_experts_count_all_but_a_token_meets_only_the_active() -> None:
    mixture = network(experts=4, active=2)

    assert mixture.layer_parameters == 64 + 4 * 128 + 16 + 48
    assert mixture.active_layer_parameters == 64 + 2 * 128


def test_a_decoder_that_looks_at_an_encoder_has_more_attention() -> None:
    assert network(cross_layers=1).attention_parameters == 64 + 32


def test_heads_may_be_wider_than_their_share() -> None:
    assert network(head_width=8).attention_parameters == 2 * 4 * 8 * 4


@pytest.mark.parametrize(
    ("parameters", "layers", "hidden", "heads"),
    [(1.3e9, 19, 2394, 19), (1e6, 2, 219, 3)],
)
def test_a_size_alone_gives_the_usual_shape(
    parameters: float, layers: int, hidden: int, heads: int
) -> None:
    # hidden^3 = 128 parameters / 12, to a multiple of the heads; layers = hidden / 128
    found = of_size(parameters)

    assert (found.layers, found.hidden, found.heads) == (layers, hidden, heads)


def test_a_part_of_the_shape_is_completed() -> None:
    by_width = of_size(24 * 12 * 1024**2 + 50257 * 1024, hidden=1024)
    by_depth = of_size(24 * 12 * 1024**2, layers=24)

    assert by_width.layers == 24
    assert by_depth.hidden == 1024


def test_a_known_size_comes_out() -> None:
    gpt2 = replace(
        NETWORK, layers=12, hidden=768, heads=12, kv_heads=12, ffn=3072, vocab=50257, positions=1024
    )

    assert gpt2.parameters == pytest.approx(124.4e6, rel=0.001)
