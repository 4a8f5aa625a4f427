"""A connector of the latency laboratory with websockets (asyncio), by
contracts/lab-connector.md."""

from __future__ import annotations

import os
from ssl import SSLContext

import websockets
from connector import Ended, Take
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

NAME = "websockets"
VERSION = websockets.__version__
FAILURES = (OSError, InvalidHandshake, ConnectionClosed)
PROTOCOL_CODES = (1002, 1003, 1007, 1009, 1010)


async def connected(url: str, settings: SSLContext | None) -> ClientConnection:
    compression = "deflate" if os.environ.get("LAB_COMPRESS") == "1" else None
    options = {"max_size": 16 << 20, "compression": compression, "ping_interval": None, "close_timeout": 0.5}
    return await connect(url, open_timeout=5, proxy=None, ssl=settings, **options)


async def send(socket: ClientConnection, text: str) -> None:
    await socket.send(text)


async def receive(socket: ClientConnection, take: Take) -> Ended:
    try:
        while True:
            take(await socket.recv())
    except ConnectionClosed as closed:
        return ended(closed)


def ended(closed: ConnectionClosed) -> Ended:
    if closed.rcvd and closed.rcvd_then_sent is not False:
        return Ended("close", closed.rcvd.code, f"{closed}")
    if closed.sent and closed.sent.code in PROTOCOL_CODES:
        return Ended("protocol", None, f"{closed}")
    return Ended("lost", None, f"{closed}")


async def close(socket: ClientConnection) -> None:
    await socket.close()
