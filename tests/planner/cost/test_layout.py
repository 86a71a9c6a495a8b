"""Layouts: ranks, tokens, and how a stack of layers is cut."""

import pytest
from fakes.cost import CLUSTER, layout


def test_ranks_are_the_product_of_all_ways_of_cutting() -> None:
    assert layout(tensor=2, pipeline=3, context=2, data=4).ranks == 48


def test_a_rank_sees_its_part_of_the_sequence() -> None:
    assert layout(micro_batch=3, context=2).tokens == 12


@pytest.mark.parametrize(("precision", "width"), [("fp32", 4), ("tf32", 4), ("bf16", 2)])
def test_a_value_is_as_wide_as_its_precision(precision: str, width: int) -> None:
    assert layout(precision=precision).width == width


def test_layers_are_cut_as_evenly_as_they_can_be() -> None:
    assert layout(pipeline=3).split(8) == (3, 3, 2)
    assert layout(pipeline=2, stages=(1, 7)).split(8) == (1, 7)


def test_a_card_gives_a_little_less_than_it_is_sold_with() -> None:
    assert CLUSTER.usable_gib == pytest.approx(9.88)
