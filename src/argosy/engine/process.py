"""How a process of a run speaks (one JSON line on stdout) and ends (an exit code that says why)."""

import json
import sys
from typing import TYPE_CHECKING

from argosy.core.errors import INTERRUPTED, UserError

if TYPE_CHECKING:
    from collections.abc import Callable


def say(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def exit_code_of(main: "Callable[[list[str]], int]", arguments: list[str]) -> int:
    """Runs `main`; what a person can mend is said in words, never as a traceback."""
    try:
        return main(arguments)
    except UserError as error:
        said = {"what": error.what, "where": error.where, "hint": error.hint}
        say(event="error", kind=type(error).__name__, **said)
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
