import asyncio
import json
import socket
import time
from pathlib import Path

import pytest
from fakes.lab import ask, dial, echo, relay_file, running

from argosy.core.errors import DamagedError, HostError, SpecError
from argosy.lab.control import command
from argosy.lab.relay import main, read_counters

FAST = (10_000.0, 0.0)
_NO_RATE = (
    '{"target_port": 1, "control_port": 0, "token": "", "counters": "c", "sites":'
    ' [{"site": "a", "port": 0, "mbit_per_s": 0, "rtt_ms": 1}]}'
)


def test_what_goes_in_comes_out_and_both_ends_learn_of_the_end(tmp_path: Path) -> None:
    async def go() -> None:
        async with echo() as server, running(relay_file(tmp_path, server, tokyo=FAST)) as relay:
            reader, writer = await dial(relay.ports["tokyo"])
            text = bytes(range(256)) * 4000

            async def send() -> None:
                writer.write(text)
                await writer.drain()
                writer.write_eof()

            _, back = await asyncio.gather(send(), reader.read(-1))

            assert back == text
            writer.close()

    asyncio.run(go())


def test_a_question_takes_one_round_trip_and_the_first_one_two(tmp_path: Path) -> None:
    async def go() -> None:
        link = (100.0, 230.0)
        async with echo() as server, running(relay_file(tmp_path, server, tokyo=link)) as relay:
            begun = time.monotonic()
            line = await dial(relay.ports["tokyo"])
            await ask(line, b"?")
            first_s = time.monotonic() - begun
            took = [await _seconds(ask(line, b"?")) for _ in range(3)]

            assert first_s >= 0.459
            # Load on this machine can only lengthen it.
            assert 0.229 <= min(took) <= 0.240
            line[1].close()

    asyncio.run(go())


def test_100_mbit_at_230_ms_carry_100_mbit_over_one_connection_or_four(tmp_path: Path) -> None:
    async def go() -> None:
        link = (100.0, 230.0)
        async with echo() as server, running(relay_file(tmp_path, server, tokyo=link)) as relay:
            for connections in (1, 4):
                best = 0.0
                for _ in range(3):
                    best = max(best, await _mbit_per_s(relay.ports["tokyo"], connections))
                    if best > 90:
                        break
                assert best == pytest.approx(100, rel=0.15)

    asyncio.run(go())


def test_each_site_has_a_rate_of_its_own(tmp_path: Path) -> None:
    async def go() -> None:
        file = relay_file(tmp_path, 0, tokyo=(8.0, 0.0), virginia=FAST)
        async with echo() as server, running(file) as relay:
            await relay.order(do="target", port=server)
            slow = asyncio.create_task(_seconds(_echo(relay.ports["tokyo"], 500_000)))
            quick_s = await _seconds(_echo(relay.ports["virginia"], 500_000))
            slow_s = await slow

            assert slow_s >= 0.45  # 4 Mbit at 8 Mbit/s, less what the buffers hold
            assert quick_s < slow_s

    asyncio.run(go())


def test_bytes_are_counted_both_ways_and_the_count_goes_on_after_a_restart(tmp_path: Path) -> None:
    async def go() -> None:
        async with echo() as server:
            file = relay_file(tmp_path, server, tokyo=FAST, virginia=FAST)
            for life in (1, 2):
                async with running(file) as relay:
                    await _echo(relay.ports["tokyo"], 1000 * life)
                    told = (await relay.order(do="status"))["sites"]
                    assert told["tokyo"]["up"] == (1000 if life == 1 else 3000)

        counted = read_counters(tmp_path / "counters.json")
        assert counted["tokyo"] == {"up": 3000, "down": 3000, "opened": 2, "refused": 0}
        assert counted["virginia"]["up"] == 0

    asyncio.run(go())


def test_a_restarted_relay_listens_where_it_did(tmp_path: Path) -> None:
    async def go() -> None:
        async with echo() as server:
            file = relay_file(tmp_path, server, tokyo=FAST)
            async with running(file) as first:
                ports = first.ports
                held = await dial(ports["tokyo"])
                await ask(held, b"?")
            async with running(file) as second:
                assert second.ports == ports
            held[1].close()

    asyncio.run(go())


def test_a_cut_resets_what_is_open_and_refuses_what_is_new_until_it_is_healed(
    tmp_path: Path,
) -> None:
    async def go() -> None:
        async with echo() as server, running(relay_file(tmp_path, server, tokyo=FAST)) as relay:
            line = await dial(relay.ports["tokyo"])
            await ask(line, b"?")

            await relay.order(do="cut", site="tokyo")

            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(line[0].read(1), 5.0)
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await _echo(relay.ports["tokyo"], 1)
            await relay.order(do="heal", site="tokyo")
            await _echo(relay.ports["tokyo"], 1)
            status = await relay.order(do="status")
            assert status["sites"]["tokyo"]["refused"] == 1
            line[1].close()

    asyncio.run(go())


def test_a_silent_cut_tells_nobody_and_the_healed_connection_is_dead(tmp_path: Path) -> None:
    async def go() -> None:
        async with echo() as server, running(relay_file(tmp_path, server, tokyo=FAST)) as relay:
            line = await dial(relay.ports["tokyo"])
            await ask(line, b"?")

            await relay.order(do="cut", site="tokyo", how="silent")

            line[1].write(b"!")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(line[0].read(1), 0.2)
            await relay.order(do="heal", site="tokyo")
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(line[0].read(1), 5.0)
            line[1].close()

    asyncio.run(go())


def test_a_stalled_connection_goes_on_where_it_was(tmp_path: Path) -> None:
    async def go() -> None:
        async with echo() as server, running(relay_file(tmp_path, server, tokyo=FAST)) as relay:
            line = await dial(relay.ports["tokyo"])
            await ask(line, b"?")

            await relay.order(do="stall", site="tokyo", direction="up")

            line[1].write(b"abc")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(line[0].read(1), 0.2)
            await relay.order(do="heal", site="tokyo")
            assert await asyncio.wait_for(line[0].readexactly(3), 5.0) == b"abc"
            line[1].close()

    asyncio.run(go())


def test_a_link_is_narrowed_in_one_direction_and_put_back(tmp_path: Path) -> None:
    async def go() -> None:
        async with echo() as server, running(relay_file(tmp_path, server, tokyo=FAST)) as relay:
            await relay.order(do="link", site="tokyo", direction="down", mbit_per_s=4)
            narrow_s = await _seconds(_echo(relay.ports["tokyo"], 200_000))
            await relay.order(do="link", site="tokyo")
            wide_s = await _seconds(_echo(relay.ports["tokyo"], 200_000))

            assert narrow_s >= 0.35  # 1.6 Mbit at 4 Mbit/s, less what the buffers hold
            assert wide_s < narrow_s

    asyncio.run(go())


def test_a_sender_whose_receiver_does_not_read_must_wait(tmp_path: Path) -> None:
    async def go() -> None:
        deaf = await asyncio.start_server(_never_read, "127.0.0.1", 0, limit=1024)
        port = deaf.sockets[0].getsockname()[1]
        async with running(relay_file(tmp_path, port, tokyo=FAST)) as relay:
            _, writer = await dial(relay.ports["tokyo"])
            writer.write(b"x" * 50_000_000)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(writer.drain(), 1.0)

            held = (await relay.order(do="status"))["sites"]["tokyo"]["up"]

            assert held < 12_000_000  # the kernel's buffers at both ends, and a little of ours
            writer.transport.abort()
        deaf.close()

    asyncio.run(go())


def test_a_logbook_that_is_not_there_is_a_reset_connection(tmp_path: Path) -> None:
    async def go() -> None:
        async with echo() as server:
            pass
        async with running(relay_file(tmp_path, server, tokyo=FAST)) as relay:
            reader, writer = await dial(relay.ports["tokyo"])
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(reader.read(1), 5.0)
            writer.close()

    asyncio.run(go())


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ({"do": "link", "site": "tokyo", "mbit_per_s": 0}, "a rate is above 0"),
        ({"do": "link", "site": "tokyo", "speed": 1}, "speed"),
        ({"do": "link", "site": "tokyo", "direction": "sideways"}, "sideways"),
        ({"do": "cut", "site": "tokyo", "how": "kindly"}, "'reset' or 'silent'"),
        ({"do": "cut", "site": "atlantis"}, "atlantis"),
        ({"do": "dance"}, "no order dance"),
        ({}, "do"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_an_order_that_means_nothing_is_refused_and_named(
    tmp_path: Path, order: dict[str, object], said: str
) -> None:
    async def go() -> None:
        async with running(relay_file(tmp_path, 1, tokyo=FAST)) as relay:
            with pytest.raises(HostError, match=said):
                await relay.order(**order)

    asyncio.run(go())


def test_who_does_not_know_the_token_commands_nothing(tmp_path: Path) -> None:
    async def go() -> None:
        file = relay_file(tmp_path, 1, tokyo=FAST)
        async with running(file):
            port = json.loads(file.read_bytes())["control_port"]
            with pytest.raises(HostError, match="wrong token"):
                await command(port, "please", {"do": "cut", "site": "tokyo"}, within_s=5.0)

    asyncio.run(go())


def test_a_relay_that_is_away_is_said_to_be(tmp_path: Path) -> None:
    async def go() -> None:
        async with echo() as port:
            pass
        with pytest.raises(HostError, match="does not answer"):
            await command(port, "t", {"do": "status"}, within_s=1.0)

    asyncio.run(go())


@pytest.mark.parametrize("which", ["site", "control"])
def test_a_port_that_is_taken_is_said_with_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], which: str
) -> None:
    file = relay_file(tmp_path, 1, tokyo=FAST)
    config = json.loads(file.read_bytes())
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        if which == "site":
            config["sites"][0]["port"] = port
        else:
            config["control_port"] = port
        file.write_text(json.dumps(config))

        code = main(file)

    assert code == 4
    assert str(port) in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        '{"target_port": 1, "control_port": 0, "token": "", "counters": "c", "sites": [{}]}',
        _NO_RATE,
    ],
    ids=["no json", "nothing in it", "no site", "no rate"],
)
def test_a_file_that_is_not_a_relays_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "relay.json"
    file.write_text(text)

    with pytest.raises(SpecError):
        asyncio.run(_start(file))


def test_damaged_counters_are_not_read_as_zero(tmp_path: Path) -> None:
    (tmp_path / "counters.json").write_text('{"sites": {"tokyo": {"up": "many"}}}')

    with pytest.raises(DamagedError):
        read_counters(tmp_path / "counters.json")


async def _start(file: Path) -> None:
    async with running(file):
        raise AssertionError


async def _never_read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        writer.transport.abort()


async def _echo(port: int, size: int) -> None:
    """There and back, until the other side has closed too."""
    reader, writer = await dial(port)
    try:
        writer.write(b"x" * size)
        await asyncio.wait_for(reader.readexactly(size), 30.0)
        writer.write_eof()
        assert await reader.read(1) == b""
    finally:
        writer.close()


async def _mbit_per_s(port: int, connections: int) -> float:
    """Bytes there and back at once, beginning when the first of them is back."""
    size = 7_500_000 // connections
    lines = [await dial(port) for _ in range(connections)]
    await asyncio.gather(*(ask(line, b"?") for line in lines))

    async def all_of(line: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        reader, writer = line
        writer.write(b"x" * size)
        await reader.readexactly(size)
        writer.close()

    seconds = await _seconds(asyncio.gather(*(all_of(line) for line in lines)))
    return 8e-6 * size * connections / (seconds - 0.230)


async def _seconds(what: "asyncio.Future[object] | object") -> float:
    begun = time.monotonic()
    await what  # type: ignore[misc]
    return time.monotonic() - begun
