"""The parity benchmark runs from end to end; what it finds out at full size is in docs/measured."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_parity_benchmark_ends_with_its_figures() -> None:
    size = [
        "--steps",
        "12",
        "--window",
        "4",
        "--lag",
        "2",
        "--width",
        "16",
        "--layers",
        "1",
        "--rate",
        "0.002",
        "0.001",
    ]

    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "parity.py", *size, "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["rounds"] == 3
    assert [each["rate"] for each in figures["by_rate"]] == [0.002, 0.001]
    assert figures["loss_ratio"] == figures["by_rate"][0]["loss_ratio"]
    best = [min(each[side] for each in figures["by_rate"]) for side in ("loss_argosy", "loss_sync")]
    assert figures["loss_ratio_best"] == pytest.approx(best[0] / best[1])
    assert figures["loss_ratio"] == pytest.approx(figures["loss_argosy"] / figures["loss_sync"])
    # by hand: 12 steps, a ring of three moves 4/3 of the gradients up and as much down
    assert figures["bytes_per_site_allreduce"] == pytest.approx(
        12 * 2 * 4 / 3 * 4 * figures["parameters"], abs=1
    )
    assert 0 < figures["bytes_per_site"] < figures["bytes_per_site_allreduce"]
