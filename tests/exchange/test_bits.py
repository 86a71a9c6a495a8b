"""The outer step and the decoders give the same bits on whatever the processor offers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, sys
import numpy as np
import torch
from argosy.core.records import Member
from argosy.exchange.codec import CODECS, decode
from argosy.exchange.digest import model_digest
from argosy.exchange.outer import coefficients, combine, outer_step
from pathlib import Path

def exact(seed, size=300_000):
    x = (np.arange(size, dtype=np.int64) * (2 * seed + 7919) * 104729) % 2**22 - 2**21
    return (x / 2**20).astype(np.float32)

def stepped_by_torch(a, v, mean):
    a, v, mean = (torch.from_numpy(x.copy()) for x in (a, v, mean))
    for _ in range(5):
        v = v * 0.9
        v = v + mean
        s = v * 0.9
        s = s + mean
        a = a - s * 0.7
    return a.numpy()

golden = Path(sys.argv[1])
found = {codec: model_digest(decode((golden / f"{codec}.frame").read_bytes())) for codec in CODECS}
members = [Member(site=str(i), n=1, tokens=100 + 17 * i, steps=3 + i) for i in range(3)]
mean = combine([exact(i) for i in range(3)], coefficients(members))
a, v = exact(8), exact(9)
for _ in range(5):
    outer_step(a, v, mean, 0.7, 0.9)
found["numpy"] = model_digest(a)
for threads in (1, 2):
    torch.set_num_threads(threads)
    found[f"torch, {threads} threads"] = model_digest(stepped_by_torch(exact(8), exact(9), mean))
found["capability"] = torch.backends.cpu.get_cpu_capability()
print(json.dumps(found))
"""


@pytest.mark.timeout(300)
def test_the_outer_step_and_the_decoders_agree_over_instruction_sets_and_threads() -> None:
    golden = Path(__file__).parent / "golden"
    found = {}
    for capability in ("default", "avx2"):
        said = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(golden)],
            env={
                **os.environ,
                "ATEN_CPU_CAPABILITY": capability,
                "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F" if capability == "default" else "",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert said.returncode == 0, said.stderr
        found[capability] = json.loads(said.stdout)

    assert found["default"].pop("capability") == "DEFAULT"
    found["avx2"].pop("capability")
    assert found["default"] == found["avx2"]
    by_hand = found["avx2"]
    assert by_hand["numpy"] == by_hand["torch, 1 threads"] == by_hand["torch, 2 threads"]
