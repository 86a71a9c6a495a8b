"""Every `argosy ...` that a page shows is a command with options that there are."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from docs.pages import ROOT, blocks, pages, prose

from argosy.cli.main import app

GROUP = typer.main.get_command(app)


def lines(page: Path) -> Iterator[tuple[str, bool]]:
    """What may be a command, and whether it stands there to be typed or is only spoken of."""
    for block in blocks(page):
        if block.info in {"sh", "bash", "console", ""}:
            yield from ((line.removeprefix("$ "), True) for line in block.text.splitlines())
    text = prose(page)
    yield from ((line.strip(), True) for line in text.splitlines() if line.startswith("    "))
    yield from ((part, False) for part in text.split("`")[1::2] if "\n" not in part)


def commands() -> list[tuple[str, str, bool]]:
    return sorted(
        {
            (str(page.relative_to(ROOT)), line.split("#")[0].strip(), typed)
            for page in pages()
            for line, typed in lines(page)
            if re.match(r"(\.venv/bin/)?argosy ", line) and "argosy: " not in line
        }
    )


def parse(arguments: list[str]) -> None:
    """As the command line would, up to the point where it would do something."""
    at, context = GROUP, GROUP.make_context("argosy", [], resilient_parsing=True)
    while hasattr(at, "commands"):
        name, *arguments = arguments
        assert name in at.commands, f"there is no command {name}"
        at = at.commands[name]
        if hasattr(at, "commands"):
            context = at.make_context(name, [], parent=context, resilient_parsing=True)
    at.make_context(at.name, arguments, parent=context)


@pytest.mark.parametrize(("page", "line", "typed"), commands())
def test_a_command_that_a_page_shows_can_be_given(page: str, line: str, typed: bool) -> None:
    try:
        parse(shlex.split(line)[1:])
    except Exception as wrong:
        # "`argosy rm` removes it" leaves out what the command needs.
        if typed or type(wrong).__name__ != "MissingParameter":
            raise AssertionError(f"{page}: {line}: {wrong}") from wrong


def test_a_wrong_command_would_be_noticed() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse(["status", "latest", "--jsn"])
    with pytest.raises(AssertionError, match="no command"):
        parse(["trian", "job.yaml"])
