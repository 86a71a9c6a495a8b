"""A host measures itself with the job's own model, quickly and without bursting."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from argosy.core.errors import HostError, SpecError
from argosy.core.job import Job, ModelFromConfig, Source, Training
from argosy.engine import calibrate, memory
from argosy.engine.calibrate import Speed, measure, quickest, sizes
from argosy.engine.config import workplace_of
from argosy.engine.process import exit_code_of

CPU = torch.device("cpu")
SMALL = {
    "model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 48,
}  # fmt: skip

JOB = """
version: 1
name: small
model:
  config: {model_type: llama, hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2,
           intermediate_size: 48}
sources:
  - {name: text, path: text.txt, country: DE, personal: no}
training: {tokens: 100000, sequence: 16, batch: 4}
"""


def job(**training: object) -> Job:
    told = {"tokens": 100_000, "sequence": 16, "batch": 4} | training
    return Job(
        name="small",
        model=ModelFromConfig(config=dict(SMALL)),
        sources=(Source(name="text", path="text.txt", country="DE", personal=False),),
        training=Training(**told),  # type: ignore[arg-type]
    )


def worker(folder: Path) -> Path:
    told = {
        "run": "r", "site": "frankfurt", "host": "fra-1", "url": "https://127.0.0.1:1",
        "keys": "keys", "data": ".", "scratch": "scratch",
    }  # fmt: skip
    (folder / "worker.json").write_text(json.dumps(told), encoding="utf-8")
    return folder / "worker.json"


class FakeHost:
    """Runs trials by a table of speeds and peaks, on a clock that only it moves."""

    def __init__(self, *speeds: float, seconds: float = 0.5, gb: float = 1.0) -> None:
        self.now = 0.0
        self.runs: list[int] = []
        self._speeds = {1 << index: speed for index, speed in enumerate(speeds)}
        self._seconds = seconds
        self._gb = gb

    def run(self, micro_batch: int, seconds: float) -> Speed | None:
        self.runs.append(micro_batch)
        self.now += max(self._seconds, seconds)
        speed = self._speeds.get(micro_batch)
        if speed is None:
            return None
        return Speed(micro_batch=micro_batch, tokens_per_s=speed, peak_gb=micro_batch * self._gb)

    def quickest(self, limit_gb: float = 1000.0, within_s: float = 100.0, batch: int = 64) -> Speed:
        return quickest(
            self.run,
            sizes(batch),
            fits=lambda peak: peak <= limit_gb,
            within_s=within_s,
            clock=lambda: self.now,
        )


def test_sizes_double_up_to_the_batch() -> None:
    assert sizes(1) == [1]
    assert sizes(12) == [1, 2, 4, 8, 12]
    assert sizes(16) == [1, 2, 4, 8, 16]


def test_the_search_ends_when_larger_ones_gain_nothing() -> None:
    host = FakeHost(100, 190, 300, 302, 305, 310, 320)

    assert host.quickest().micro_batch == 4
    assert host.runs == [1, 2, 4, 8, 16, 4]


def test_one_unlucky_pass_does_not_end_the_search() -> None:
    host = FakeHost(100, 190, 150, 400, 405, 401)

    assert host.quickest().micro_batch == 8


def test_the_search_ends_before_the_memory_does() -> None:
    host = FakeHost(1, 2, 4, 8, 16, 32, 64)

    assert host.quickest(limit_gb=9).micro_batch == 8
    assert 16 not in host.runs


def test_a_gpu_that_runs_out_of_memory_ends_the_search() -> None:
    host = FakeHost(10, 20, 40)

    assert host.quickest().micro_batch == 4
    assert host.runs == [1, 2, 4, 8, 4]


def test_the_search_keeps_its_deadline() -> None:
    host = FakeHost(1, 2, 4, 8, 16, 32, 64, seconds=2.0)

    assert host.quickest(within_s=8.0).micro_batch == 4
    assert host.now <= 8.0


def test_a_host_too_slow_for_a_second_pass_is_still_measured() -> None:
    host = FakeHost(1, 2, seconds=60.0)

    assert host.quickest(within_s=8.0) == Speed(micro_batch=1, tokens_per_s=1, peak_gb=1.0)
    assert host.runs == [1]


def test_a_host_that_cannot_hold_one_sequence_says_so() -> None:
    with pytest.raises(HostError, match="not even one sequence"):
        FakeHost(1, 2).quickest(limit_gb=0.5)


def test_a_host_measures_speed_and_memory(tmp_path: Path) -> None:
    place = workplace_of(json.loads(worker(tmp_path).read_text()), tmp_path)

    measured = measure(job(), place, within_s=0.2)

    assert measured.parameters == 2 * 257 * 32 + 4 * 32 * 32 + 3 * 32 * 48 + 3 * 32
    assert measured.facts.host == "fra-1"
    assert measured.facts.tokens_per_s > 0
    assert measured.facts.micro_batch in (1, 2, 4)
    assert 0.05 < measured.facts.peak_memory_gb < measured.facts.memory_gb
    assert measured.facts.torch == torch.__version__


def test_sgd_is_measured_too(tmp_path: Path) -> None:
    place = workplace_of(json.loads(worker(tmp_path).read_text()), tmp_path)

    assert measure(job(optimizer="sgd", batch=1), place, within_s=0.1).facts.tokens_per_s > 0


def test_a_model_that_will_not_fit_is_not_built(tmp_path: Path) -> None:
    place = workplace_of(json.loads(worker(tmp_path).read_text()), tmp_path)
    huge = {"hidden_size": 65536, "num_hidden_layers": 200, "intermediate_size": 262144}
    asked = replace(job(), model=ModelFromConfig(config=SMALL | huge))

    measured = measure(asked, place, within_s=0.1)

    assert measured.facts.tokens_per_s == 0
    assert measured.parameters > 10**13
    assert measured.facts.peak_memory_gb > measured.parameters * 16 / 1e9


def test_the_prediction_counts_state_logits_and_layers() -> None:
    training = Training(tokens=1, sequence=100)
    described = json.dumps({"hidden_size": 10, "num_hidden_layers": 3})

    # by hand: 16 bytes x 1e6, and 100 tokens x 4 bytes x (3 x 257 logits + 20 x 10 x 3)
    assert memory.predicted_gb(10**6, 257, training, described, 1.0) == pytest.approx(
        1 + 0.016 + 100 * 4 * (771 + 600) / 1e9
    )
    assert memory.predicted_gb(10**6, 257, training, "", 0.0) == pytest.approx(
        0.016 + 100 * 4 * 771 / 1e9
    )


def test_memory_is_told_within_reason() -> None:
    assert 0.05 < memory.peak_gb(CPU) < memory.available_gb(CPU)


def test_memory_is_told_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "none")
    monkeypatch.setattr(memory, "STATUS", tmp_path / "none")

    assert 0.05 < memory.peak_gb(CPU) < memory.available_gb(CPU)


def test_a_container_s_bound_is_heard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "max").write_text("max\n", encoding="ascii")
    (tmp_path / "bound").write_text("123000000\n", encoding="ascii")
    monkeypatch.setattr(memory, "CGROUPS", (tmp_path / "max", tmp_path / "bound"))

    assert memory.available_gb(CPU) == pytest.approx(0.123)


def test_one_json_line_says_it_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.yaml").write_text(JOB, encoding="utf-8")
    arguments = [str(worker(tmp_path)), "--job", str(tmp_path / "job.yaml")]

    assert calibrate.main([*arguments, "--within", "0.1", "--no-link"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told["event"] == "calibrated"
    assert told["facts"]["tokens_per_s"] > 0
    assert told["link"] is None


def test_what_goes_wrong_is_said_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: list[str]) -> int:
        raise SpecError("no such thing", where="job.yaml:3", hint="look again")

    def is_stopped(_: list[str]) -> int:
        raise KeyboardInterrupt

    assert exit_code_of(fails, []) == 2
    assert exit_code_of(is_stopped, []) == 130
    told = capsys.readouterr()
    assert json.loads(told.out)["what"] == "no such thing"
    assert told.err == "job.yaml:3: no such thing\n  look again\n"
