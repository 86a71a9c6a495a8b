"""The end of a run: the logbook closed under a signed head, and the model where the user finds it."""

import asyncio

from argosy.core.errors import HostError, UserError
from argosy.core.records import Checkpointed, Ended
from argosy.logbook.blobs import BlobFolder
from argosy.run.desk import Desk
from argosy.run.folder import RunFolder
from argosy.run.react import Finish
from argosy.run.state import RunState

EXPORT = "export"
EXPORT_S = 300.0


async def finish(desk: Desk, state: RunState, end: Finish) -> None:
    """Write the last record, end the hosts, and write the model down."""
    await desk.write(
        Ended(
            outcome=end.outcome,
            rounds=state.round,
            tokens=state.tokens,
            head_seq=state.seq,
            head_chain=state.chain,
        )
    )
    await desk.stop_hosts()
    if state.checkpoint is not None:
        await export_model(desk, state.checkpoint)


async def export_model(desk: Desk, checkpoint: Checkpointed) -> None:
    """In a process that may load torch. The run is whole without it, so a failure is only said."""
    program = [desk.means.python, "-m", "argosy.engine.tasks", EXPORT]
    arguments = [str(desk.folder.job), str(blob_of(desk.folder, checkpoint))]
    options = ["--data", desk.setup.data, "--out", str(desk.folder.model)]
    try:
        async with asyncio.timeout(EXPORT_S):
            end = await desk.run_beside(EXPORT, [*program, *arguments, *options])
        if not end.ok:
            failed = HostError("the model could not be written", where=str(desk.folder.model))
            raise desk.why_ended(EXPORT, failed)
    except (UserError, TimeoutError) as wrong:
        desk.audience.say(f"no model: {wrong}\n  Its checkpoint is safe: {arguments[1]}")


def blob_of(folder: RunFolder, checkpoint: Checkpointed) -> str:
    """Where a checkpoint lies, as a path."""
    return str(BlobFolder(folder.logbook / "blobs").path(checkpoint.blob))
