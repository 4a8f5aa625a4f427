"""Reads whole pieces from a socket."""

import socket


class SocketReader:
    """A socket and the bytes that were received and not used yet."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        # A test does not wait for the acknowledgement of its last frame.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def read_head(self) -> str:
        """Reads an HTTP head and returns it without the blank line."""
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        return head.decode()

    def _take(self, size: int) -> bytes:
        while len(self.buffer) < size:
            self._more()
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    def _more(self) -> None:
        more = self.socket.recv(65536)
        if not more:
            raise EOFError
        self.buffer += more
