"""A connector of the latency laboratory with picows, by contracts/lab-connector.md.

picows delivers frames. This file joins fragments, checks UTF-8 and answers the close frame.
"""

import time
from ssl import SSLContext

import picows
from connector import Ended, Take
from picows import WSCloseCode, WSError, WSFrame, WSListener, WSMsgType, WSTransport

NAME = "picows"
VERSION = picows.__version__
FAILURES = (OSError, WSError, TimeoutError)
DATA = (WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CONTINUATION)


class Listener(WSListener):
    """Callbacks of one connection. Messages wait in `early` until `receive` begins."""

    def __init__(self) -> None:
        self.take: Take = lambda message, received_ns: self.early.append((message, received_ns))
        self.early: list[tuple[str | bytes, int]] = []
        self.fragments: list[bytes] = []
        self.first: WSMsgType | None = None
        self.ended: Ended | None = None

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        received_ns = time.monotonic_ns()
        kind = frame.msg_type
        if kind in DATA:
            try:
                self.data(frame, kind, received_ns)
            except UnicodeDecodeError as error:
                self.fail(transport, WSCloseCode.INVALID_TEXT, str(error))
            except ValueError as error:
                self.fail(transport, WSCloseCode.PROTOCOL_ERROR, str(error))
        elif kind is WSMsgType.CLOSE and self.ended is None:
            payload = frame.get_payload_as_bytes()
            code = int.from_bytes(payload[:2], "big") if len(payload) > 1 else 1005
            self.ended = Ended("close", code, "the server closed the connection")
            transport.send_close(WSCloseCode.OK)
            transport.disconnect()

    def data(self, frame: WSFrame, kind: WSMsgType, received_ns: int) -> None:
        if (kind is WSMsgType.CONTINUATION) == (self.first is None):
            raise ValueError("a continuation has no beginning, or a message begins inside another")
        if frame.fin and self.first is None:
            text = kind is WSMsgType.TEXT
            self.take(frame.get_payload_as_utf8_text() if text else frame.get_payload_as_bytes(), received_ns)
            return
        self.first = self.first or kind
        self.fragments.append(frame.get_payload_as_bytes())
        if frame.fin:
            body = b"".join(self.fragments)
            self.take(body.decode() if self.first is WSMsgType.TEXT else body, received_ns)
            self.first = None
            self.fragments.clear()

    def fail(self, transport: WSTransport, code: WSCloseCode, text: str) -> None:
        if self.ended is None:
            self.ended = Ended("protocol", None, text)
            transport.send_close(code)
            transport.disconnect()


class Socket:
    def __init__(self, transport: WSTransport, listener: Listener) -> None:
        self.transport = transport
        self.listener = listener


async def connected(url: str, settings: SSLContext | None) -> Socket:
    transport, listener = await picows.ws_connect(Listener, url, ssl_context=settings, max_frame_size=16 << 20)
    return Socket(transport, listener)


async def send(socket: Socket, text: str) -> None:
    socket.transport.send(WSMsgType.TEXT, text.encode())


async def receive(socket: Socket, take: Take) -> Ended:
    for message, received_ns in socket.listener.early:
        take(message, received_ns)
    socket.listener.take = take
    failure = "the connection ended"
    try:
        await socket.transport.wait_disconnected()
    except FAILURES as error:
        failure = str(error)
    if socket.listener.ended is not None:
        return socket.listener.ended
    sent = socket.transport.close_handshake.sent if socket.transport.close_handshake else None
    return Ended("protocol" if sent else "lost", None, failure)


async def close(socket: Socket) -> None:
    socket.transport.disconnect()
