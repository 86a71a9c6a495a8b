"""Write a file whole or not at all."""

import os
from pathlib import Path

from argosy.core.errors import DiskError


def write_whole(path: Path, content: bytes, *, mode: int = 0o644, sync: bool = True) -> None:
    """`.part`, then rename. Whoever reads sees the old content or the new one."""
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(opened, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
        if sync:
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as problem:
        part.unlink(missing_ok=True)
        raise DiskError(
            f"cannot write: {problem.strerror}",
            where=str(path),
            hint="free some space or mend the folder's rights; what was there before is unharmed",
        ) from problem
