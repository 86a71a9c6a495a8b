"""Accelerators: data sheets, the names people write, and torch's builds."""

import csv
from importlib.resources import files

import pytest

from argosy.catalog.accelerators import ACCELERATORS, TORCH_BUILDS, accelerator, builds_for
from argosy.catalog.networks import NETWORKS, network


def _rows(name: str) -> list[dict[str, str]]:
    text = files("argosy.catalog").joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@pytest.mark.parametrize(
    ("written", "memory_gb", "name"),
    [
        ("A100", None, "A100-SXM4-80GB"),
        ("a100-sxm", 40.0, "A100-SXM4-40GB"),
        ("Tesla T4", None, "T4"),
        ("V100-SXM2", 16.0, "V100-SXM2-16GB"),
        ("GH-96", 96.0, "GH200-96GB"),
        ("RTX 4090", 24.0, "RTX-4090"),
        ("H100", 96.0, "H100-SXM5-80GB"),
    ],
)
def test_a_card_is_found_however_it_is_written(
    written: str, memory_gb: float | None, name: str
) -> None:
    assert accelerator(written, memory_gb).name == name


def test_a_card_that_is_not_known_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"got 'A10O'.*did you mean 'A10"):
        accelerator("A10O")
    with pytest.raises(ValueError, match="argosy catalog show lists them"):
        accelerator("abacus")


def test_rates_are_those_of_the_data_sheet() -> None:
    a100 = accelerator("A100")

    assert a100.peak["bf16"] == 312
    assert a100.memory_gb_s == 2039
    assert a100.achievable("bf16") == pytest.approx(312 * 0.83)


def test_a_precision_without_matrix_units_runs_as_fp32() -> None:
    v100 = accelerator("V100")

    assert v100.achievable("bf16") == pytest.approx(15.7 * 0.7)


def test_volta_is_left_to_the_old_build_and_blackwell_to_the_new() -> None:
    assert [build.build for build in builds_for(accelerator("V100"))] == ["cu126"]
    assert "cu126" not in [build.build for build in builds_for(accelerator("B200"))]
    assert {build.build for build in builds_for(accelerator("T4"))} == {
        build.build for build in TORCH_BUILDS
    }


def test_every_name_means_one_card() -> None:
    names = [name for card in ACCELERATORS.values() for name in (card.name, *card.also)]

    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "file", ["accelerators.csv", "torch_builds.csv", "networks.csv", "offers.csv"]
)
def test_every_fact_names_a_source_that_is_listed(file: str) -> None:
    listed = {row["source"] for row in _rows("sources.csv")}

    assert {row["source"] for row in _rows(file)} <= listed


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama-2-7b", 6.74),
        ("Llama 3.1 8B", 8.03),
        ("llama-2-70b", 68.98),
        ("mixtral-8x7b", 46.7),
        ("gpt3-175b", 174.6),
        ("gpt2", 0.124),
        ("gemma-2b", 2.51),
        ("falcon-7b", 6.92),
    ],
)
def test_known_networks_have_as_many_parameters_as_they_are_said_to(
    name: str, billions: float
) -> None:
    found = network(name)

    assert found is not None
    assert found.parameters / 1e9 == pytest.approx(billions, rel=0.02)


def test_a_network_that_is_not_known_is_none() -> None:
    assert network("a model of my own") is None
    assert all(one.layers > 0 and one.hidden > 0 for one in NETWORKS.values())
