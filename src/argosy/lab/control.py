"""The relay's control door: one JSON object a line, over loopback, for who knows the token."""

import asyncio
import hmac
import json
from collections.abc import Callable
from typing import Any

from argosy.core.errors import HostError

_PATIENCE_S = 5.0


async def serve_control(
    port: int, token: str, obey: Callable[[dict[str, Any]], dict[str, Any]]
) -> asyncio.Server:
    """Answers {"ok": true, ...} or {"ok": false, "error": ...} and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readline(), _PATIENCE_S)
            writer.write(json.dumps(_answer(line, token, obey)).encode() + b"\n")
            await asyncio.wait_for(writer.drain(), _PATIENCE_S)
        except (OSError, TimeoutError, ValueError):  # ValueError: a line without an end
            return
        finally:
            writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", port, reuse_address=True)


def _answer(
    line: bytes, token: str, obey: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    try:
        command = json.loads(line)
        if not hmac.compare_digest(str(command.pop("token")).encode(), token.encode()):
            return {"ok": False, "error": "wrong token"}
        return {"ok": True, **obey(command)}
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        return {"ok": False, "error": f"not understood: {problem!r}"}


async def command(
    port: int, token: str, order: dict[str, Any], *, within_s: float
) -> dict[str, Any]:
    """Give the relay one order and return its answer."""
    writer = None
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(json.dumps({**order, "token": token}).encode() + b"\n")
            answer = json.loads(await reader.readline())
    except (OSError, ValueError, TimeoutError) as problem:
        raise HostError(
            "the lab's relay does not answer",
            where=f"127.0.0.1:{port}",
            hint="is it running? its log is in the run folder, lab/relay.log",
        ) from problem
    finally:
        if writer is not None:
            writer.close()
    if not answer.pop("ok"):
        raise HostError(f"the lab's relay refuses: {answer['error']}", where=f"127.0.0.1:{port}")
    return dict(answer)
