"""A publisher with one fault on demand, from PUBLISHER_FAULT."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from http import HTTPStatus
from pathlib import Path

import nats
from websockets.asyncio.server import ServerConnection, broadcast, serve

FAULT = os.environ.get("PUBLISHER_FAULT", "")
TEST = os.environ["LAB_TEST"]
CHILD = "import time; block = bytearray(b'x' * 50 * 2**20); time.sleep(60)"
clients: set[ServerConnection] = set()


async def handle(connection: ServerConnection) -> None:
    clients.add(connection)
    try:
        async for message in connection:
            if TEST == "echo":
                await connection.send("else" if FAULT == "changed-echo" else message)
            elif TEST == "heartbeat":
                count = int(os.environ["LAB_MESSAGES"]) - (FAULT == "one-answer-less")
                size = int(os.environ["LAB_BYTES"]) - (FAULT == "short-answer")
                for _ in range(count):
                    await connection.send("x" * size)
    finally:
        clients.discard(connection)


def text(sequence: int, due_ns: int) -> str:
    number = sequence // 2 if FAULT == "repeated-number" else sequence
    head = "{" if FAULT == "no-number" else f'{{"seq":{number},'
    head += "" if FAULT == "no-time" else f'"ts_ns":{due_ns},'
    head += '"pad":"'
    size = int(os.environ["LAB_BYTES"]) + 50 * (FAULT == "wrong-size")
    return head + "x" * (size - len(head) - 2) + '"}'


async def generate() -> None:
    start_ns, sequence = time.time_ns(), 0
    while FAULT != "silent":
        sequence += 1
        due_ns = start_ns + int(sequence / int(os.environ["LAB_RATE"]) * 1e9)
        await asyncio.sleep(max(0, due_ns - time.time_ns()) / 1e9)
        broadcast(clients, text(sequence, due_ns))


async def consume() -> None:
    async def publish(message: nats.aio.msg.Msg) -> None:
        broadcast(clients, message.data.decode() + (" " * 20 if FAULT == "changed-queue" else ""))

    queue = await nats.connect(os.environ["LAB_QUEUE"])
    await queue.subscribe(os.environ["LAB_SUBJECT"], cb=publish)
    await queue.flush()


def refuse(connection: ServerConnection, request: object) -> object:
    allowed = TEST != "queue" or FAULT == "any-token" or request.path == f"/?token={os.environ['LAB_TOKEN']}"
    return None if allowed else connection.respond(HTTPStatus.UNAUTHORIZED, "wrong token\n")


async def main() -> None:
    if TEST not in ("echo", "heartbeat", "fan-out", "queue") and FAULT != "any-test":
        sys.exit(2)
    if FAULT == "no-start":
        print("no port today", file=sys.stderr)
        sys.exit(3)
    if FAULT == "ignore-sigterm":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if FAULT == "child":
        subprocess.Popen([sys.executable, "-c", CHILD])
    if TEST == "queue":
        await consume()
    host, port = os.environ["LAB_HOST"], int(os.environ["LAB_PORT"])
    options = {"compression": None, "ping_interval": None, "process_request": refuse}
    async with serve(handle, host, port, **options) as server:
        address = server.sockets[0].getsockname()
        ready = Path(os.environ["LAB_READY_FILE"])
        unfinished = ready.with_suffix(".unfinished")
        unfinished.write_text(f'{{"http":"{address[0]}:{address[1]}"}}')
        unfinished.rename(ready)
        if TEST == "fan-out":
            await generate()
        await server.serve_forever()


asyncio.run(main())
