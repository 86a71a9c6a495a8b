"""`list`, `status`, `logs`, `rm`, `audit`, `evaluate`, `generate`, `export`, `watch`: finished runs
and running ones, from their folders."""

import json
import math
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

from argosy.cli import show
from argosy.cli.afterwards import counted, read_entries, specs
from argosy.cli.audience import Lines, Live
from argosy.cli.program import program
from argosy.core.errors import HostError, SpecError, UserError
from argosy.core.records import Ended
from argosy.data.files import SUFFIXES, is_text
from argosy.logbook import open_log
from argosy.observe.story import tell
from argosy.run import lock
from argosy.run import setup as setups
from argosy.run.audit import audit as prove
from argosy.run.desk import error_told
from argosy.run.finish import blob_of
from argosy.run.folder import RunFolder, everyone, find, spec_text
from argosy.run.resume import read_state
from argosy.run.state import RunState
from argosy.run.unbegun import NEVER_BEGAN, forget

LOOK_EVERY_S = 0.3
NOBODY_LEADS = "unled"  # stopped, or its controller was killed: it can be resumed
PLANNING = "planning"  # its hosts are being measured, or the user is asked
BROKEN = "broken"  # its logbook cannot be read


def list_runs(runs: Path, *, as_json: bool) -> None:
    rows = [_row_or_why(folder) for folder in everyone(runs)]
    if as_json:
        print(json.dumps(rows))
        return
    if not rows:
        print(f"no runs in {runs} yet: {program()} train JOB begins one")
        return
    print(f"{'run':<48} {'status':<11} {'rounds':>6} {'tokens':>14}")
    for row in rows:
        numbers = f"{row['round']:>6} {row['tokens']:>14,}" if "round" in row else ""
        print(f"{row['name']:<48} {row['status']:<11} {numbers}".rstrip())
    for row in rows:
        if "problem" in row:
            print(f"\n{BROKEN}: {row['problem']}")


def _row_or_why(folder: RunFolder) -> dict[str, object]:
    """A run that cannot be read must not hide the others."""
    try:
        return _row(folder)
    except UserError as wrong:
        told = UserError(
            wrong.what,
            where=wrong.where or str(folder.path),
            hint=wrong.hint
            or f"`{program()} audit {folder.name}` says what is wrong;"
            f" `{program()} rm {folder.name}` forgets it.",
        )
        row = {"name": folder.name, "path": str(folder.path), "status": BROKEN}
        return {**row, "problem": str(told)}


def status(name: str, runs: Path, *, as_json: bool) -> None:
    folder = find(runs, name)
    entries = read_entries(folder)
    job, _ = specs(entries)
    row = _row(folder)
    story = replace(tell(entries, counted(folder)), outcome=str(row["status"]))
    if as_json:
        print(json.dumps({**row, "story": asdict(story)}))
        return
    print(f"{folder.name}: {row['status']}{_what_now(folder, story.outcome)}")
    print("\n".join(show.status_lines(story, job.training.tokens)))


def _what_now(folder: RunFolder, status: str) -> str:
    match status:
        case "unled":
            return f" (no controller leads it: {program()} resume {folder.name} goes on)"
        case "never began":
            return f" ({program()} rm {folder.name} forgets it)"
        case _:
            return ""


def logs(name: str, runs: Path, host: str | None, *, follow: bool, lines: int) -> None:
    folder = find(runs, name)
    paths = sorted((folder.path / "sites").glob(f"*/{host or '*'}/log.txt"))
    if not paths:
        known = ", ".join(
            p.parent.name for p in sorted((folder.path / "sites").glob("*/*/log.txt"))
        )
        raise SpecError(
            f"no log of {host}" if host else "no logs yet",
            where=str(folder.path),
            hint=f"There are logs of: {known}" if known else None,
        )
    ends: dict[Path, int] = {}
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="replace")
        ends[path] = path.stat().st_size
        _print_log(path, text.splitlines()[-lines:], many=len(paths) > 1)
    while follow:
        time.sleep(LOOK_EVERY_S)
        for path in paths:
            with path.open("rb") as file:
                file.seek(ends[path])
                new = file.read()
            ends[path] += len(new)
            _print_log(path, new.decode(errors="replace").splitlines(), many=len(paths) > 1)


def rm(name: str, runs: Path, *, yes: bool) -> None:
    folder = find(runs, name)
    pid = lock.holder(folder.lock)
    if pid is not None:
        raise HostError(
            f"the run is led by process {pid}", where=str(folder.path), hint="argosy stop ends it."
        )
    if not yes:
        if not sys.stdin.isatty():
            raise SpecError("nobody is here to agree", where="rm", hint="--yes agrees beforehand.")
        if input(f"Remove {folder.name} with logbook, model and keys? [y/N] ").lower() != "y":
            return
    forget(folder)
    print(f"{folder.name} is gone")


def audit(name: str, runs: Path, *, as_json: bool) -> bool:
    proof = prove(find(runs, name))
    print(json.dumps(proof.to_json()) if as_json else str(proof))
    return proof.ok


def _row(folder: RunFolder) -> dict[str, object]:
    state = read_state(folder)
    return {
        "name": folder.name,
        "path": str(folder.path),
        "run": state.run.run if state.run else "",
        "status": _status(folder, state),
        "round": state.round,
        "tokens": state.tokens,
        "sites": {
            site.name: {"country": site.country, "trained": site.trained}
            for site in state.sites.values()
        },
    }


def _status(folder: RunFolder, state: RunState) -> str:
    if state.ended:
        return state.ended.outcome
    if lock.holder(folder.lock) is not None:
        return "running" if state.plan else PLANNING
    return NOBODY_LEADS if state.plan else NEVER_BEGAN


def _print_log(path: Path, lines: list[str], *, many: bool) -> None:
    for line in lines:
        print(f"{path.parent.name}: {line}" if many else line, flush=True)


def evaluate(name: str, runs: Path, files: list[Path], *, as_json: bool) -> None:
    """Prints a line for each file; without files, what the sites found on their held-out parts."""
    folder = find(runs, name)
    if files:
        _refuse_what_is_no_text(files)
        for line in _task("evaluate", folder, *map(str, files)):
            told = json.loads(line)
            if told.get("event") == "evaluated":
                print(line if as_json else show.evaluated(told))
        return
    state = read_state(folder)
    newest = {source: losses[-1] for source, losses in state.losses.items()}
    if as_json:
        print(json.dumps({source: asdict(loss) for source, loss in newest.items()}))
        return
    if not newest:
        raise SpecError(
            "no site has evaluated this run's model yet",
            where=str(folder.path),
            hint=f"`{program()} watch {folder.name}` shows when; or name files of text to evaluate.",
        )
    for source, loss in newest.items():
        print(f"{source}: {loss.bits_per_byte:.3f} bits per byte after round {loss.round}")


def _refuse_what_is_no_text(files: list[Path]) -> None:
    """By name, before torch is loaded for nothing. What is in them, the task says."""
    for path in files:
        if path.is_file() and not is_text(path.name):
            raise SpecError(
                "this is of no kind that can be read",
                where=str(path),
                hint=f"expected a file that ends in {', '.join(SUFFIXES)}, or a folder of such",
            )
        if not path.exists():
            raise SpecError(
                "there is no such file or folder",
                where=str(path),
                hint="Text files are named after the run: evaluate RUN FILE ...; `latest` is a RUN.",
            )


def generate(name: str, runs: Path, prompt: str, wishes: dict[str, object]) -> None:
    temperature = wishes["temperature"]
    if isinstance(temperature, float) and not math.isfinite(temperature):
        raise SpecError(
            f"expected a number, got {temperature}", where="--temperature", hint="0.8 is usual"
        )
    options = [text for option, value in wishes.items() for text in (f"--{option}", str(value))]
    for line in _task("generate", find(runs, name), "--prompt", prompt, *options):
        told = json.loads(line)
        if told.get("event") == "generated":
            print(told["text"])


def export_metrics(name: str, runs: Path, to: Path) -> None:
    from argosy.observe.metrics import points, write_csv, write_tensorboard

    found = points(read_entries(find(runs, name)))
    to.mkdir(parents=True, exist_ok=True)
    write_csv(found, to / "metrics.csv")
    print(show.nearby(to / "metrics.csv"))
    try:
        write_tensorboard(found, to / "tensorboard")
    except UserError as missing:
        print(f"no TensorBoard files: {missing}")
    else:
        print(show.nearby(to / "tensorboard"))


def watch(name: str, runs: Path) -> None:
    """From the folder alone, whoever leads the run; until it ends or somebody presses Ctrl-C."""
    folder = find(runs, name)
    audience = Live(yes=True) if sys.stdout.isatty() else Lines(yes=True)
    log = open_log(folder.logbook)
    try:
        heard, entries = 0, log.entries()
        while True:
            audience.heard(tuple(entries))
            heard += len(entries)
            if any(isinstance(entry.body, Ended) for entry in entries):
                return
            time.sleep(LOOK_EVERY_S)
            entries = log.entries(heard + 1)
    finally:
        audience.close()
        log.close()


def _task(task: str, folder: RunFolder, *arguments: str) -> list[str]:
    """The JSON lines of a process of its own: what needs torch is not loaded here."""
    state = read_state(folder)
    if state.checkpoint is None:
        raise SpecError(
            "this run has no model yet",
            where=str(folder.path),
            hint="The first one is written when training begins, the next after some rounds:"
            f" `{program()} status {folder.name}` says where the run stands.",
        )
    spec_text(folder.job)
    argv = [sys.executable, "-m", "argosy.engine.tasks", task, str(folder.job)]
    argv += [blob_of(folder, state.checkpoint), "--data", setups.load(folder).data, *arguments]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode:
        raise error_told(lines, HostError(f"{task} failed", hint=done.stderr.strip()[-400:]))
    return lines
