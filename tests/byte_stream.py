"""A TCP connection that is read by exact numbers of bytes."""

import socket
from dataclasses import dataclass, field
from typing import Self

PATIENCE_S = 60.0


@dataclass
class ByteStream:
    address: str
    sock: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        host, port = self.address.rsplit(":", 1)
        self.sock = socket.create_connection((host, int(port)), PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.sock.recv(count - len(data))
            assert part, "the venue closed the connection"
            data += part
        return data
