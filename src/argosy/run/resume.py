"""Going on with a run whose controller has gone: what lies in its folder is enough."""

from argosy.core.errors import SpecError
from argosy.logbook import open_log
from argosy.run import setup as setups
from argosy.run.folder import RunFolder
from argosy.run.lead import lead
from argosy.run.setup import Means
from argosy.run.state import RunState, state_of


async def resume(folder: RunFolder, means: Means, *, stop: bool = False) -> RunState:
    """Lead it to its end; `stop`: with one last round. Sites that still live are adopted."""
    refuse_what_is_over(folder)
    return await lead(folder, setups.load(folder), means, stop=stop)


def refuse_what_is_over(folder: RunFolder) -> None:
    """A run that has ended, or that never began, has nothing to go on with."""
    state = read_state(folder)
    if state.ended is not None:
        raise SpecError(
            "this run has ended; there is nothing left to resume",
            where=str(folder.path),
            hint="`argosy status` shows how it went.",
        )
    if state.plan is None:
        raise SpecError(
            "this run never began: no plan was agreed to",
            where=str(folder.path),
            hint=f"Begin anew with `argosy train`; `argosy rm {folder.name}` forgets this one.",
        )


def read_state(folder: RunFolder) -> RunState:
    """Where the run stands, from its folder alone: no controller need be there."""
    log = open_log(folder.logbook)
    try:
        return state_of(log.entries())
    finally:
        log.close()
