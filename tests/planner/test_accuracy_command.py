"""benchmarks/planner/accuracy.py: the figures it prints, and how loudly it says that rows are absent."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMAND = ROOT / "benchmarks/planner/accuracy.py"
HEAD = (
    "row_id,split,source,source_path,gpu,gpu_mem_gb,n_gpus,gpus_per_node,intra_node,"
    "inter_node_gbps,model,params_b,n_layers,hidden,n_heads,n_kv_heads,ffn_hidden,vocab,seq_len,"
    "arch,task,tp,pp,vpp,cp,ep,dp,shard,micro_bs,grad_accum,global_bs,precision,act_ckpt,"
    "flash_attn,optimizer,framework,step_time_s,samples_per_s,tokens_per_s_per_gpu,"
    "tflops_per_gpu,tflops_def,mfu_pct,peak_mem_gib,mem_def,fits,date,notes"
)


def _rows(path: Path, count: int) -> Path:
    """A cluster whose step takes 10 ms a micro-batch; the last row did not fit."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, HEAD.split(","), restval="")
        writer.writeheader()
        for index in range(count):
            failed = index == count - 1
            writer.writerow(
                {
                    "row_id": f"made#{index:02}",
                    "source": "made up",
                    "gpu": "T4",
                    "gpu_mem_gb": 16,
                    "n_gpus": 1,
                    "gpus_per_node": 1,
                    "model": "small",
                    "n_layers": 2,
                    "hidden": 256,
                    "n_heads": 4,
                    "vocab": 1000,
                    "seq_len": 128,
                    "arch": "gpt",
                    "micro_bs": 200_000 if failed else 1,
                    "grad_accum": 1 + index,
                    "precision": "fp16",
                    "flash_attn": 1,
                    "framework": "made",
                    "step_time_s": "" if failed else 0.05 + 0.01 * index,
                    "peak_mem_gib": "" if failed else 2.0,
                    "fits": 0 if failed else 1,
                }
            )
    return path


def _run(*arguments: str, data: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(COMMAND), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"ARGOSY_DATA": str(data), "PYTHONPATH": str(ROOT / "src")},
    )


def test_the_figures_are_printed_by_source_and_accelerator(tmp_path: Path) -> None:
    rows = _rows(tmp_path / "rows.csv", 20)

    done = _run("--rows", str(rows), "--calibrate", "6", "--json", data=tmp_path)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["tested"] == found["memory_tested"] == 13
    assert found["mape"] < 15
    assert found["median"] <= found["p90"]
    assert found["memory_mean"] < 10
    assert (found["fitted"], found["did_not_fit"]) == (13, 1)
    assert found["false_fits"] == found["false_rejects"] == 0
    assert found["by_source"]["made up"]["mape"] == found["by_gpu"]["T4"]["mape"]
    assert found["rows"]["calibration"] == 6
    assert found["rows"]["without_step_time"] == 1


def test_absent_rows_are_no_figures(tmp_path: Path) -> None:
    done = _run("--json", data=tmp_path)

    assert done.returncode != 0
    assert "NOT MEASURED: no rows at" in done.stderr
    assert done.stdout == ""
