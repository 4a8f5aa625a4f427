"""Minimal clients of the JSON-RPC dialect over HTTP and WebSocket. They hide and forgive
nothing."""

import hashlib
import hmac
import http.client
import itertools
import json
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode

from venue import Credentials
from websockets.sync.client import connect

Json = dict[str, Any]
PATIENCE_S = 60.0


class RpcError(Exception):
    """The venue answered with an error object."""

    def __init__(self, method: str, error: Json) -> None:
        super().__init__(f"{method}: {error}")
        self.code: int = error["code"]
        self.error = error


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Json:
        return json.loads(self.body)


def hex_hmac(secret: str, text: str) -> str:
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def client_signature(secret: str, timestamp_ms: int, nonce: str, data: str = "") -> str:
    return hex_hmac(secret, f"{timestamp_ms}\n{nonce}\n{data}")


def request_signature(secret: str, timestamp_ms: int, nonce: str, verb: str, uri: str, body: str = "") -> str:
    return hex_hmac(secret, f"{timestamp_ms}\n{nonce}\n{verb}\n{uri}\n{body}\n")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


_nonces = itertools.count(1)


def signed(credentials: Credentials, verb: str, uri: str, body: str = "") -> dict[str, str]:
    timestamp_ms, nonce = now_ms(), f"n{next(_nonces)}"
    signature = request_signature(credentials.secret, timestamp_ms, nonce, verb, uri, body)
    value = f"deri-hmac-sha256 id={credentials.client_id},ts={timestamp_ms},sig={signature},nonce={nonce}"
    return {"Authorization": value}


class Http:
    """One keep-alive connection. With credentials, private calls are signed as ccxt signs them."""

    def __init__(self, address: str, credentials: Credentials | None = None) -> None:
        self.credentials = credentials
        self._connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)

    def request(self, verb: str, uri: str, body: str | None = None, headers: dict[str, str] | None = None) -> Reply:
        self._connection.request(verb, uri, body, headers or {})
        response = self._connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, names, response.read())

    def get(self, uri: str, headers: dict[str, str] | None = None) -> Reply:
        return self.request("GET", uri, None, headers)

    def post(self, uri: str, message: Json | str, headers: dict[str, str] | None = None) -> Reply:
        body = message if isinstance(message, str) else json.dumps(message)
        return self.request("POST", uri, body, {"Content-Type": "application/json"} | (headers or {}))

    def call(self, method: str, params: Json | None = None) -> Json:
        """Sends a GET, as ccxt always does, and returns the whole answer, error or not."""
        uri = f"/api/v2/{method}" + (f"?{query(params)}" if params else "")
        private = method.startswith("private/")
        headers = signed(self.credentials, "GET", uri) if private and self.credentials else {}
        return self.get(uri, headers).json()

    def result(self, method: str, params: Json | None = None) -> Any:
        return result_of(method, self.call(method, params))

    def close(self) -> None:
        self._connection.close()


class Ws:
    """One WebSocket. Replies are matched by id; other messages wait in `inbox`, in order."""

    def __init__(self, url: str, sock: socket.socket | None = None) -> None:
        opening = connect(url, sock=sock, compression=None, max_size=None, open_timeout=PATIENCE_S, close_timeout=2)
        self._connection = opening.__enter__()
        self._ids = itertools.count(1)
        self.inbox: deque[Json] = deque()

    def send(self, message: Json | str | bytes) -> None:
        self._connection.send(json.dumps(message) if isinstance(message, dict) else message)

    def receive(self, timeout_s: float = PATIENCE_S) -> Json:
        """Returns the next message of any kind: first from the inbox, then from the socket."""
        return self.inbox.popleft() if self.inbox else self.arrive(timeout_s)

    def arrive(self, timeout_s: float = PATIENCE_S) -> Json:
        return json.loads(self.arrive_text(timeout_s))

    def arrive_text(self, timeout_s: float = PATIENCE_S) -> str:
        text = self._connection.recv(timeout=timeout_s)
        assert isinstance(text, str), "the dialect speaks in text frames"
        return text

    def post(self, method: str, params: Json | None = None) -> int:
        """Sends without waiting."""
        request_id = next(self._ids)
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}})
        return request_id

    def call(self, method: str, params: Json | None = None) -> Json:
        request_id = self.post(method, params)
        while (message := self.arrive()).get("id") != request_id:
            self.inbox.append(message)
        return message

    def result(self, method: str, params: Json | None = None) -> Any:
        return result_of(method, self.call(method, params))

    def login(self, credentials: Credentials) -> Json:
        grant = {"grant_type": "client_credentials", "client_id": credentials.client_id}
        return self.result("public/auth", grant | {"client_secret": credentials.secret})

    def subscribe(self, *channels: str, scope: str = "public") -> list[str]:
        return self.result(f"{scope}/subscribe", {"channels": list(channels)})

    def notification(
        self, channel: str, wanted: Callable[[Any], bool] = lambda _: True, timeout_s: float = PATIENCE_S
    ) -> Any:
        """Returns the data of the next notification on a wanted channel and drops others."""
        deadline = time.monotonic() + timeout_s
        while True:
            message = self.receive(max(0.0, deadline - time.monotonic()))
            params = message.get("params", {})
            if params.get("channel") == channel and wanted(params["data"]):
                return params["data"]

    def silence(self, channel: str, seconds: float) -> None:
        """Asserts that a channel stays silent for a while."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                message = self.receive(left)
            except TimeoutError:
                return
            assert message.get("params", {}).get("channel") != channel, message

    def cut(self) -> None:
        """Ends like a lost connection: without a close frame, and without waiting."""
        self._connection.socket.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> "Ws":
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()


def result_of(method: str, answer: Json) -> Any:
    if "error" in answer:
        raise RpcError(method, answer["error"])
    return answer["result"]


def query(params: Json) -> str:
    text = {key: str(value).lower() if isinstance(value, bool) else value for key, value in params.items()}
    return urlencode(text, quote_via=quote)


def until(condition: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> None:
    """Waits until `condition` holds, and fails after `patience_s` seconds."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
