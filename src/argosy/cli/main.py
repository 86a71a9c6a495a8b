"""`argosy`: its commands, and the one place where an error becomes a message and an exit code."""

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from argosy import __version__
from argosy.cli.catalog import catalog
from argosy.cli.init import init
from argosy.cli.schema import schema
from argosy.core.errors import INTERRUPTED, SpecError, UserError

# Everything else is imported by the command that needs it: `argosy --help` answers at once.

app = typer.Typer(
    name="argosy",
    help="Train one model on machines anywhere, each site on the data that may not leave it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
export = typer.Typer(no_args_is_help=True, help="Write what a run measured for other programs.")
app.add_typer(export, name="export")
app.add_typer(catalog, name="catalog")
app.command()(init)
app.command()(schema)

Runs = Annotated[Path, typer.Option("--runs", help="The folder with all runs.")]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A path, a name, how one begins, or `latest`.")
]
JobFile = Annotated[Path, typer.Argument(metavar="JOB", help="The job file, usually job.yaml.")]
FleetFile = Annotated[
    Path | None, typer.Option("--fleet", help="The fleet file. Else fleet.yaml beside the job.")
]
Lab = Annotated[
    bool, typer.Option("--lab", help="Emulate the fleet on this machine: processes as hosts.")
]
Declared = Annotated[
    bool, typer.Option("--declared", help="Believe the fleet file's speeds; measure nothing.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")]

RUNS = Path("runs")


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Say the version and end.")] = False,
) -> None:
    if version:
        print(f"argosy {__version__}")
        raise typer.Exit


@app.command()
def train(  # noqa: PLR0913, PLR0917 - one parameter an option
    job: JobFile,
    fleet: FleetFile = None,
    lab: Lab = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Begin without asking.")] = False,
    declared: Declared = False,
    url: Annotated[
        str, typer.Option(help="Where the sites reach the logbook: https://name:port.")
    ] = "",
    port: Annotated[
        int, typer.Option(help="The port of the logbook. 0: any free one.", min=0, max=65535)
    ] = 0,
    runs: Runs = RUNS,
) -> None:
    """Plan, ask, train at all sites, and leave model, report and proof."""
    from argosy.cli import train as way

    wishes = way.Wishes(lab=lab, yes=yes, declared=declared, url=url, port=port)
    way.train(job, fleet, runs, wishes)


@app.command()
def plan(
    job: JobFile,
    fleet: FleetFile = None,
    lab: Lab = False,
    declared: Declared = False,
    as_json: AsJson = False,
) -> None:
    """Say where, how, how long and for how much, and start nothing."""
    from argosy.cli import train as way

    way.plan(job, fleet, way.Wishes(lab=lab, declared=declared), as_json=as_json)


@app.command()
def resume(
    run: RunName = "latest",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Begin without asking.")] = False,
    runs: Runs = RUNS,
) -> None:
    """Take the lead of a run whose controller has gone, and finish it."""
    from argosy.cli import train as way

    way.resume(run, runs, yes=yes)


@app.command()
def stop(
    run: RunName = "latest",
    now: Annotated[
        bool, typer.Option("--now", help="At once, without a last round. It can be resumed.")
    ] = False,
    runs: Runs = RUNS,
) -> None:
    """End a run early: one last round, then model and report as usual."""
    from argosy.cli import train as way

    way.stop(run, runs, now=now)


@app.command("list")
def list_runs(as_json: AsJson = False, runs: Runs = RUNS) -> None:
    """All runs, the newest first."""
    from argosy.cli import runs as shelf

    shelf.list_runs(runs, as_json=as_json)


@app.command()
def status(run: RunName = "latest", as_json: AsJson = False, runs: Runs = RUNS) -> None:
    """Where a run stands: rounds, tokens, losses, sites, last events."""
    from argosy.cli import runs as shelf

    shelf.status(run, runs, as_json=as_json)


@app.command()
def logs(
    run: RunName = "latest",
    host: Annotated[str | None, typer.Argument(metavar="[HOST]")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they grow.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", help="From each host.", min=1)] = 20,
    runs: Runs = RUNS,
) -> None:
    """What the processes of a run said."""
    from argosy.cli import runs as shelf

    shelf.logs(run, runs, host, follow=follow, lines=lines)


@app.command()
def rm(
    run: RunName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Without asking.")] = False,
    runs: Runs = RUNS,
) -> None:
    """Forget a run: remove its folder, with logbook, model and keys."""
    from argosy.cli import runs as shelf

    shelf.rm(run, runs, yes=yes)


@app.command()
def audit(run: RunName = "latest", as_json: AsJson = False, runs: Runs = RUNS) -> None:
    """Recompute the whole proof of a run; say ok, or the first record that is wrong."""
    from argosy.cli import runs as shelf

    if not shelf.audit(run, runs, as_json=as_json):
        raise typer.Exit(6)


@app.command()
def evaluate(
    run: RunName = "latest",
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Text files or folders of them (.txt, .jsonl and .gz). RUN must stand before them.",
        ),
    ] = None,
    as_json: AsJson = False,
    runs: Runs = RUNS,
) -> None:
    """How well the model of a run predicts text, in bits per byte: the fewer, the better.

    With files, the newest checkpoint on each of them.

    Without, what the sites found last on the held-out part of each source.

    8 bits per byte is what guessing blindly comes to.
    """
    from argosy.cli import runs as shelf

    shelf.evaluate(run, runs, files or [], as_json=as_json)


@app.command()
def generate(
    run: RunName,
    prompt: str,
    tokens: Annotated[int, typer.Option(help="How many to write at most.", min=1)] = 200,
    temperature: Annotated[
        float,
        typer.Option(
            help="0: always the likeliest token, which repeats itself; more: more daring.", min=0.0
        ),
    ] = 0.8,
    seed: Annotated[
        int,
        typer.Option(help="Another seed, another text; the same, the same.", min=0, max=2**63 - 1),
    ] = 0,
    runs: Runs = RUNS,
) -> None:
    """Let the model of a run go on with a text."""
    from argosy.cli import runs as shelf

    wishes: dict[str, object] = {"tokens": tokens, "temperature": temperature, "seed": seed}
    shelf.generate(run, runs, prompt, wishes)


@export.command("metrics")
def export_metrics(
    run: RunName,
    to: Annotated[Path, typer.Option("--to", help="The folder to write into.")],
    runs: Runs = RUNS,
) -> None:
    """CSV and TensorBoard files of losses, rounds, bytes and events."""
    from argosy.cli import runs as shelf

    shelf.export_metrics(run, runs, to)


@app.command()
def watch(run: RunName = "latest", runs: Runs = RUNS) -> None:
    """A live view of a run in this terminal."""
    from argosy.cli import runs as shelf

    shelf.watch(run, runs)


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """One command; its exit code. Nobody ever sees a traceback."""
    try:
        said = app(args=list(arguments), prog_name="argosy", standalone_mode=False)
    except UserError as wrong:
        print(f"argosy: {wrong}", file=sys.stderr)
        return wrong.exit_code
    except (KeyboardInterrupt, typer.Abort):
        said = INTERRUPTED
    except BrokenPipeError:  # somebody piped us into `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as wrong:  # noqa: BLE001 - the last door
        usage = hasattr(wrong, "format_message") and hasattr(wrong, "exit_code")
        return _usage(wrong) if usage else _unexpected(wrong, _runs(arguments))
    if said == INTERRUPTED:  # newer typers catch the interrupt themselves
        print("argosy: interrupted", file=sys.stderr)
    return said if isinstance(said, int) else 0


def _usage(wrong: Any) -> int:
    """The parser's own errors, in the form of all others; a bare command shows its help instead."""
    context = getattr(wrong, "ctx", None)
    if type(wrong).__name__ == "NoArgsIsHelpError":
        wrong.show()
        return int(wrong.exit_code)
    where = context.command_path if context is not None else "argosy"
    what = str(wrong.format_message()).strip().rstrip(".")
    shown = SpecError(
        what[:1].lower() + what[1:],
        where=where.removeprefix("argosy ").strip(),
        hint=f"`{where} --help` says what it takes",
    )
    print(f"argosy: {shown}" if where != "argosy" else f"argosy: {shown.what}\n  {shown.hint}",
          file=sys.stderr)  # fmt: skip
    return int(wrong.exit_code)


def _runs(arguments: Sequence[str]) -> Path:
    """The folder that --runs names; read by hand, since the command line may be what went wrong."""
    for place, word in enumerate(arguments):
        if word.startswith("--runs="):
            return Path(word.removeprefix("--runs="))
        if word == "--runs" and place + 1 < len(arguments):
            return Path(arguments[place + 1])
    return RUNS


def _unexpected(wrong: Exception, runs: Path) -> int:
    """A mistake of ours. The traceback goes where a bug report can take it from."""
    path = runs / "error.log"
    text = "".join(traceback.format_exception(wrong))
    try:
        runs.mkdir(parents=True, exist_ok=True)
        path.write_text(f"argosy {__version__}, Python {sys.version}\n{text}", encoding="utf-8")
        details = f"The details are in {path}; please report them."
    except OSError as full:
        details = f"The details could not be written to {path} ({full.strerror}):\n{text}"
    print(
        f"argosy: something went wrong that should not have ({type(wrong).__name__}: {wrong})\n"
        f"  {details}",
        file=sys.stderr,
    )
    return 1
