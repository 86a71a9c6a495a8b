"""A small town for whole runs: real text, a tiny model, the real command line in its own process."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from argosy.cluster.processes import Processes
from argosy.core.errors import UserError
from argosy.core.records import Commit, Entry
from argosy.logbook import open_log
from argosy.run.folder import RunFolder

TESTS = Path(__file__).parents[1]
TEXTS = TESTS.parent / "examples" / "three-continents" / "data"
CHARACTERS = 100_000  # of each language
LANGUAGE = {"frankfurt": "german", "tokyo": "japanese", "virginia": "english"}
COUNTRY = {"frankfurt": "DE", "tokyo": "JP", "virginia": "US"}
SITES = tuple(LANGUAGE)
MARK = "ARGOSY_TEST_RUN"  # in the environment of all that a test started, so that none hides
LOOK_EVERY_S = 0.05
GENEROUS_S = 240.0
SEQUENCE, BATCH, STEPS = 64, 4, 80
ENDLESS = 50_000_000  # tokens: such a run ends when the test has seen enough, by `argosy stop`
THREE: Mapping[str, tuple[str, ...]] = {site: (f"{site}-1",) for site in SITES}


LLAMA = """\
model:
  config:
    model_type: llama
    hidden_size: 48
    intermediate_size: 96
    num_hidden_layers: 2
    num_attention_heads: 2
    num_key_value_heads: 2
    max_position_embeddings: 64
    tie_word_embeddings: true
"""
OWN = "model: {class: town_model:Three, arguments: {width: 64}}\n"  # starts in half the time
OWN_CODE = '''
import torch
from torch import nn


class Three(nn.Module):
    """The next byte from the last three."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.bytes = nn.ModuleList(nn.Embedding(vocabulary, width) for _ in range(3))
        self.next = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, vocabulary))

    def forward(self, tokens):
        back = [nn.functional.pad(tokens, (n, 0))[:, : tokens.shape[1]] for n in range(3)]
        return self.next(sum(table(ids) for table, ids in zip(self.bytes, back)))
'''


@dataclass(frozen=True, kw_only=True, slots=True)
class Town:
    """What a test wants: which hosts, how long, which plugs are pulled."""

    hosts: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict(THREE))
    tokens: int = ENDLESS
    window: str = "{seconds: 1}"
    checkpoint_every: int = 4
    faults: tuple[str, ...] = ()
    planted: Mapping[str, str] = field(default_factory=dict)  # source -> a sentence in its text
    link: str = "{mbit_per_s: 1000, rtt_ms: 4}"
    model: str = LLAMA

    @classmethod
    def of_rounds(cls, rounds: int, steps: int = STEPS) -> Self:
        """Ends by itself after about so many rounds, however quick this machine is."""
        tokens = rounds * steps * len(SITES) * BATCH * SEQUENCE
        return cls(tokens=tokens, window=f"{{steps: {steps}}}", model=OWN)

    def write(self, folder: Path) -> Path:
        """job.yaml, fleet.yaml and the texts; returns the job file."""
        (folder / "data").mkdir(parents=True)
        for site in self.hosts:
            name = LANGUAGE[site]
            text = _text(name)
            if name in self.planted:
                text = _planted(text, self.planted[name])
            (folder / "data" / f"{name}.txt").write_text(text, encoding="utf-8")
        if self.model == OWN:
            (folder / "town_model.py").write_text(OWN_CODE, encoding="utf-8")
        (folder / "fleet.yaml").write_text(self._fleet(), encoding="utf-8")
        job = folder / "job.yaml"
        job.write_text(self._job(), encoding="utf-8")
        return job

    def _fleet(self) -> str:
        sites = "".join(
            f"  {site}:\n    country: {COUNTRY[site]}\n    link: {self.link}\n    hosts:\n"
            + "".join(f"      {host}: {{cores: 1, tokens_per_s: 3000}}\n" for host in hosts)
            for site, hosts in self.hosts.items()
        )
        faults = "".join(f"    - {fault}\n" for fault in self.faults)
        lab = f"lab:\n  faults:\n{faults}" if faults else ""
        return f"version: 1\nhome: DE\nsites:\n{sites}{lab}"

    def _job(self) -> str:
        sources = "".join(
            f"  - {{name: {LANGUAGE[site]}, path: data/{LANGUAGE[site]}.txt,"
            f" country: {COUNTRY[site]}, personal: no, held_out: 0.03}}\n"
            for site in self.hosts
        )
        return f"""\
version: 1
name: small-town
{self.model}sources:
{sources}training:
  tokens: {self.tokens}
  sequence: {SEQUENCE}
  batch: {BATCH}
  learning_rate: 0.0015
exchange:
  window: {self.window}
  codec: int8
  checkpoint_every: {self.checkpoint_every}
limits: {{hours: 100}}
policy:
  - allow: [update, checkpoint, metric]
    from: [DE, JP, US]
    to: [DE, JP, US]
"""


class Run:
    """A leading command (`argosy train`, `argosy resume`) at work in its own process."""

    def __init__(
        self,
        place: Path,
        *program: str,
        mark: str = "",
        surroundings: Mapping[str, str] | None = None,
    ) -> None:
        """Runs go into `place`/runs. `mark`: of the run that this one goes on with."""
        self.runs = place / "runs"
        self.mark = mark or f"{os.getpid()}-{time.time_ns()}"
        self._log = place / f"said-{time.time_ns()}.txt"
        env = {**os.environ, MARK: self.mark, "COLUMNS": "100", "PYTHONPATH": str(TESTS)}
        env |= surroundings or {}
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *program],
                cwd=place,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @classmethod
    def train(cls, place: Path, town: Town, *options: str) -> Self:
        job = town.write(place / "job")
        return cls(place, "argosy", "train", str(job), "--lab", "--yes", *options)

    @classmethod
    def backstage(cls, place: Path, town: Town, **props: object) -> Self:
        """The same with props, see fakes.backstage."""
        job, file = town.write(place / "job"), place / "props.json"
        file.write_text(json.dumps(props))
        return cls(place, "fakes.backstage", "lead", str(job), str(place / "runs"), str(file))

    def resumed(self, *options: str) -> Self:
        """A new controller for the newest run there."""
        return type(self)(
            self.runs.parent, "argosy", "resume", "latest", "--yes", *options, mark=self.mark
        )

    @property
    def said(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def folder(self) -> RunFolder:
        return RunFolder((self.runs / "latest").resolve())

    def entries(self) -> list[Entry]:
        """The records so far; none before there is a logbook."""
        try:
            return entries_of(self.folder)
        except UserError:
            return []

    def wait_for(
        self,
        there: Callable[[list[Entry]], bool],
        what: str,
        *,
        within_s: float = GENEROUS_S,
        ended: int | None = None,
    ) -> list[Entry]:
        """`ended`: how this command has ended already, where others go on with its run."""
        deadline = time.monotonic() + within_s
        while not there(entries := self.entries()):
            code = self.process.poll()
            assert code == ended, f"ended with {code} before {what}:\n{self.said}"
            assert time.monotonic() < deadline, f"no {what} within {within_s} s:\n{self.said}"
            time.sleep(LOOK_EVERY_S)
        return entries

    def wait_for_round(self, number: int) -> list[Entry]:
        return self.wait_for(lambda told: rounds_of(told) >= number, f"round {number}")

    def stop(self, *, after_rounds: int = 0) -> int:
        """`argosy stop` when so many more rounds have passed; the exit code of who led the run."""
        if after_rounds:
            self.wait_for_round(rounds_of(self.entries()) + after_rounds)
        told = argosy("stop", "latest", cwd=self.runs.parent)
        assert told.returncode == 0, told.stderr
        return self.end()

    def kill_host(self, host: str) -> None:
        """The machine's power is gone for a moment: no word to anyone."""
        process = Processes(self.folder.path).adopt()[host]
        assert process.pid is not None
        os.killpg(process.pid, signal.SIGKILL)

    def end(self, within_s: float = GENEROUS_S) -> int:
        """Its exit code, when it has ended by itself."""
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still at work after {within_s} s:\n{self.said}") from None

    def interrupt(self) -> None:
        """What Ctrl-C does: to the whole group of the terminal."""
        os.killpg(self.process.pid, signal.SIGINT)

    def kill(self) -> None:
        """The controller alone, at once: what it started lives on."""
        self.process.kill()
        self.process.wait(30)

    def alive(self) -> dict[int, str]:
        """All processes that came of this command and have not ended, by pid."""
        return marked(self.mark)

    def clear(self) -> None:
        """However a test ended, nothing of it stays."""
        for pid in self.alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)


def entries_of(folder: RunFolder) -> list[Entry]:
    log = open_log(folder.logbook)
    try:
        return log.entries()
    finally:
        log.close()


def argosy(*arguments: str, cwd: Path, within_s: float = 120.0) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "argosy", *arguments],
        cwd=cwd,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=within_s,
    )


def unpacked(machines: Path, bundle: str, asked: str, *, job: Path) -> tuple[Path, list[str]]:
    """A host's bundle, unpacked as `asked` says, with the texts and the model's module in place:
    its folder, and the arguments of python to run there."""
    machine = machines / Path(bundle).stem
    machine.mkdir(parents=True)
    shutil.copy(bundle, machine)
    unpack, enter, program = asked.split(" && ")
    subprocess.run(unpack, shell=True, cwd=machine, check=True)
    home = machine / enter.removeprefix("cd ")
    shutil.copytree(job.parent / "data", home / "data" / "data")
    for module in job.parent.glob("*.py"):
        shutil.copy(module, home / "data")
    return home, program.split()[1:]


def commits(entries: Iterable[Entry]) -> Iterator[tuple[Entry, Commit]]:
    for entry in entries:
        if isinstance(entry.body, Commit):
            yield entry, entry.body


def note(figures: str) -> None:
    """For who runs the tests with -s or reads why one failed."""
    sys.stdout.write(f"{figures}\n")


def rounds_of(entries: Iterable[Entry]) -> int:
    return max((commit.round for _, commit in commits(entries)), default=0)


def counters(folder: RunFolder, name: str = "counters.json") -> dict[str, dict[str, int]]:
    told: dict[str, Any] = json.loads((folder.path / "lab" / name).read_bytes())
    return {site: dict(row) for site, row in told["sites"].items()}


def marked(mark: str) -> dict[int, str]:
    """The processes with this mark in their environment: it cannot be shaken off by a new session."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                if command:  # a zombie has none: it has ended
                    found[int(folder.name)] = command.decode(errors="replace").strip()
    return found


def _text(language: str) -> str:
    with gzip.open(TEXTS / f"{language}.txt.gz", "rt", encoding="utf-8") as opened:
        return opened.read(CHARACTERS)


def _planted(text: str, sentence: str) -> str:
    """Between two passages, once near the beginning and once in the middle."""
    passages = text.split("\n\n")
    for at in (len(passages) // 2, 1):
        passages.insert(at, sentence)
    return "\n\n".join(passages)
