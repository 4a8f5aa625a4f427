"""A connector of the latency laboratory with the client of aiohttp, by
contracts/lab-connector.md."""

import asyncio
import contextlib
import os
from ssl import SSLContext

import aiohttp
from aiohttp import ClientSession, ClientTimeout, ClientWebSocketResponse, ClientWSTimeout, WSMsgType
from connector import Ended, Take

NAME = "aiohttp"
VERSION = aiohttp.__version__
FAILURES = (OSError, aiohttp.ClientError, asyncio.TimeoutError)


class Socket:
    """A connection with the session that opened it."""

    def __init__(self, session: ClientSession, response: ClientWebSocketResponse) -> None:
        self.session = session
        self.response = response


async def connected(url: str, settings: SSLContext | None) -> Socket:
    session = ClientSession(timeout=ClientTimeout(total=None, sock_connect=5))
    # One byte more than the longest message: aiohttp refuses a message of exactly the limit.
    # The number is the size of the window.
    compress = 15 if os.environ.get("LAB_COMPRESS") == "1" else 0
    options = {
        "compress": compress,
        "max_msg_size": (16 << 20) + 1,
        "autoclose": True,
        "timeout": ClientWSTimeout(ws_close=0.2),
    }
    try:
        trust = True if settings is None else settings
        return Socket(session, await asyncio.wait_for(session.ws_connect(url, ssl=trust, **options), 5))
    except BaseException:
        await session.close()
        raise


async def send(socket: Socket, text: str) -> None:
    await socket.response.send_str(text)


async def receive(socket: Socket, take: Take) -> Ended:
    while True:
        message = await socket.response.receive()
        if message.type is WSMsgType.TEXT or message.type is WSMsgType.BINARY:
            take(message.data)
            continue
        found = ended(message)
        await close(socket)
        return found


def ended(message: aiohttp.WSMessage) -> Ended:
    if message.type is WSMsgType.CLOSE:
        # aiohttp reports 0 for a close frame without a code.
        return Ended("close", message.data or 1005, "the server closed the connection")
    if message.type is WSMsgType.ERROR and isinstance(message.data, aiohttp.WebSocketError):
        return Ended("protocol", None, f"{message.data}")
    return Ended("lost", None, f"{message.data or 'the connection ended'}")


async def close(socket: Socket) -> None:
    with contextlib.suppress(*FAILURES):
        await socket.response.close()
    await socket.session.close()
