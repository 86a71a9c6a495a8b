"""How the user calls this program, for the commands that it tells him to type."""

import contextlib
import shlex
import shutil
import sys
from pathlib import Path


def program() -> str:
    """`argosy` where the shell finds it; else the path by which it was called just now."""
    called = Path(sys.argv[0])
    if called.parts[-2:] == ("argosy", "__main__.py"):
        return "python -m argosy"
    found = shutil.which("argosy")
    if found is not None or called.name != "argosy":
        return "argosy"
    with contextlib.suppress(ValueError):
        called = called.relative_to(Path.cwd())
    return shlex.quote(str(called))
