"""A run to which no plan was agreed never began: nothing of it stays, unless its logs say why."""

import shutil

from argosy.core.errors import UserError
from argosy.run import folder as folders
from argosy.run.folder import RunFolder
from argosy.run.resume import read_state

NEVER_BEGAN = "never began"


def has_begun(folder: RunFolder) -> bool:
    """Whether a plan stands in its logbook. Raises UserError where that cannot be read."""
    return read_state(folder).plan is not None


def forget_unbegun(folder: RunFolder, why: BaseException) -> bool:
    """Remove what is left of a run that ended by `why` before it began; whether it never began.

    Where the message sends its reader into the folder, the folder stays for him, and is marked.
    """
    if _begun(folder, otherwise=True):  # what cannot be read is not ours to throw away
        return False
    if not (isinstance(why, UserError) and str(folder.path) in str(why)):
        shutil.rmtree(folder.path, ignore_errors=True)
    return True


def forget(folder: RunFolder) -> None:
    """Remove a run with all that is in its folder; `latest` then is the newest that is left."""
    shutil.rmtree(folder.path)
    runs = folder.path.parent
    latest = runs / folders.LATEST
    if latest.is_symlink() and not latest.exists():
        latest.unlink()
        left = [other for other in folders.everyone(runs) if _begun(other, otherwise=False)]
        if left:
            folders.point_latest_at(left[0])


def _begun(folder: RunFolder, *, otherwise: bool) -> bool:
    try:
        return has_begun(folder)
    except UserError:
        return otherwise
