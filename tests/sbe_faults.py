"""Relays between a client and the venue that lose messages: frames over TCP, and datagrams."""

import contextlib
import random
import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import Self

LOGON, RETRANSMIT_REQUEST, AMEND = 1, 5, 11
FIRST_NUMBERED = 20


@dataclass
class FrameRelay:
    """Serves connections to the gateway. Each fault happens once, on any but the second connection:

    - it drops the message `drop` of the gateway,
    - it cuts the connection instead of passing on the message `cut` of the gateway,
    - it cuts the connection instead of passing on the first amend.
    """

    target: str
    drop: int
    cut: int
    done: set[str] = field(default_factory=set)
    resumed: list[int] = field(default_factory=list)
    retransmit_requests: int = 0

    def __enter__(self) -> Self:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.sockets: list[socket.socket] = []
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()
        for sock in self.sockets:
            close(sock)

    def accept(self) -> None:
        host, port = self.target.rsplit(":", 1)
        number = 0
        while True:
            try:
                client, _ = self.listener.accept()
                venue = socket.create_connection((host, int(port)))
            except OSError:
                return
            self.sockets += [client, venue]
            faulty = number != 1
            number += 1
            threading.Thread(target=self.requests, args=(client, venue, faulty), daemon=True).start()
            threading.Thread(target=self.answers, args=(client, venue, faulty), daemon=True).start()

    def requests(self, client: socket.socket, venue: socket.socket, faulty: bool) -> None:
        while frame := read_frame(client):
            (template,) = struct.unpack_from("<H", frame, 8)
            if template == LOGON:
                self.resumed += struct.unpack_from("<Q", frame, 14 + 64 + 128)
            elif template == RETRANSMIT_REQUEST:
                self.retransmit_requests += 1
            elif template == AMEND and faulty and self.first("lost amend"):
                break
            venue.sendall(frame)
        close(client)
        close(venue)

    def answers(self, client: socket.socket, venue: socket.socket, faulty: bool) -> None:
        while frame := read_frame(venue):
            (template,) = struct.unpack_from("<H", frame, 8)
            if template >= FIRST_NUMBERED and faulty:
                (number,) = struct.unpack_from("<Q", frame, 14)
                if number == self.drop and self.first("drop"):
                    continue
                if number == self.cut and self.first("cut"):
                    break
            with contextlib.suppress(OSError):
                client.sendall(frame)
        close(client)
        close(venue)

    def first(self, fault: str) -> bool:
        is_first = fault not in self.done
        self.done.add(fault)
        return is_first


def close(sock: socket.socket) -> None:
    """Closes a socket, also for a thread that reads it."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


def read_frame(sock: socket.socket) -> bytes | None:
    try:
        header = sock.recv(6, socket.MSG_WAITALL)
        if len(header) < 6:
            return None
        length = struct.unpack(">I", header[:4])[0] - 6
        return header + sock.recv(length, socket.MSG_WAITALL)
    except OSError:
        return None


class DatagramRelay:
    """Passes datagrams on, drops some of them, and swaps some with their successor."""

    def __init__(self, to_port: int, lost: float, seed: int) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.sock.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.sock.getsockname()[1]}"
        self.target, self.lost, self.random = ("127.0.0.1", to_port), lost, random.Random(seed)
        self.dropped = self.passed = 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        held: list[bytes] = []
        while True:
            try:
                datagram = self.sock.recv(65_535)
                if not datagram:
                    return
                if self.random.random() < self.lost:
                    self.dropped += 1
                    continue
                held.append(datagram)
                if len(held) == 1 and self.random.random() < self.lost:
                    continue
                while held:
                    self.sock.sendto(held.pop(), self.target)
                    self.passed += 1
            except OSError:
                return

    def close(self) -> None:
        # An empty datagram wakes the thread.
        self.sock.sendto(b"", self.sock.getsockname())
