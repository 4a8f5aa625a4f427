"""URL streams over the wire: equal bytes for every client, numbers without gaps, helpful
refusals."""

import asyncio
import contextlib
import json
from typing import Any

import pytest
import requests
import websockets
from venue import Venue
from websockets.asyncio.client import ClientConnection, connect

PATIENCE_S = 60.0


def stream(venue: Venue, target: str) -> connect:
    # A client with a full queue stops reading and then misses the close frame.
    return connect(f"ws://{venue.address}{target}", max_size=None, max_queue=None)


async def take(socket: ClientConnection, count: int) -> list[str]:
    async with asyncio.timeout(PATIENCE_S):
        return [str(await socket.recv()) for _ in range(count)]


async def refusal(venue: Venue, target: str) -> tuple[int, dict[str, Any]]:
    with pytest.raises(websockets.InvalidStatus) as caught:
        async with stream(venue, target):
            pass
    response = caught.value.response
    return response.status_code, json.loads(response.body or b"null")


@pytest.mark.parametrize(
    "target",
    [
        "/ws/npnzar@trade/solzar@trade/btcusdc@trade",
        "/stream?streams=npnzar@trade/btcusdc@aggTrade/solzar@depth@100ms&ts=ns&timeUnit=microsecond",
        "/message/realtime?subscribe=ORDERBOOK:BTC-USDC,TRADE:BTC-USDC",
        "/v1/marketdata/btcusdc?study=1",
    ],
)
def test_equal_streams_are_equal_bytes(venue: Venue, target: str) -> None:
    """Two connections. The messages that both received after the later one connected are equal."""

    async def scenario() -> None:
        async with stream(venue, target) as one, stream(venue, target) as other:
            mine, theirs, common = [], [], []
            # The first messages may be states of different moments.
            while len(common) <= 15:
                for received, more in zip(
                    (mine, theirs), await asyncio.gather(take(one, 50), take(other, 50)), strict=True
                ):
                    received += more
                start = next(text for text in theirs[5:] if text in mine)
                common = mine[mine.index(start) :]
        assert theirs[theirs.index(start) :][: len(common)] == common[: len(theirs) - theirs.index(start)]
        assert len(set(mine)) == len(mine), "two events with one text"

    asyncio.run(scenario())


def test_628_streams_in_one_url(venue: Venue) -> None:
    async def scenario() -> None:
        names = [f"stranger{n}@trade" for n in range(625)] + ["npnzar@trade", "solzar@trade", "btcusdc@trade"]
        async with stream(venue, "/stream?streams=" + "/".join(names)) as socket:
            assert socket.response is not None
            assert socket.response.headers["X-Pitwire-Unknown-Streams"] == "625"
            for text in await take(socket, 10):
                message = json.loads(text)
                assert message["stream"] in names[-3:]
                assert list(message["data"]) == ["e", "E", "s", "t", "p", "q", "T", "m", "M"]

    asyncio.run(scenario())


def test_depth_joins_the_snapshot_and_the_wrong_is_refused_with_a_remedy(venue: Venue) -> None:
    async def scenario() -> None:
        async with stream(venue, "/ws/btcusdc@depth@100ms") as socket:
            await take(socket, 1)
            url = f"{venue.http_url}/api/v3/depth?symbol=BTCUSDC&limit=5000"
            snapshot = await asyncio.to_thread(lambda: requests.get(url, timeout=PATIENCE_S).json())
            last, events = snapshot["lastUpdateId"], 0
            for text in await take(socket, 10):
                event = json.loads(text)
                if event["u"] > last:
                    assert event["U"] == last + 1, "the snapshot ends where an event does"
                    last, events = event["u"], events + 1
            assert events > 0
        for target, code, part in [
            ("/ws/unknown@trade", -1121, "exchangeInfo"),
            ("/ws/npnzar@depth7", 2, "depth5|10|20"),
            ("/stream?streams=npnzar@dance", 2, "aggTrade"),
        ]:
            status, body = await refusal(venue, target)
            assert (status, body["code"]) == (400, code)
            assert part in body["msg"]
        assert (await refusal(venue, "/message/realtime?subscribe=DEPTH:NPN-ZAR"))[1]["code"] == "10005"
        assert (await refusal(venue, "/v1/marketdata/unknown"))[1]["reason"] == "InvalidSymbol"

    asyncio.run(scenario())


def test_an_unserved_path_is_refused_in_its_exchanges_form(venue: Venue) -> None:
    for verb, path, key, code, part in [
        ("GET", "/api/v3/openOrders?symbol=NPNZAR", "code", -1020, "/api/v2"),
        ("POST", "/api/v3/order", "code", -1020, "POST /api/v3/order"),
        ("DELETE", "/api/v3/openOrders", "code", -1020, "/api/v2"),
        ("GET", "/sapi/v1/asset/tradeFee", "code", -1020, "wallet"),
        ("GET", "/fapi/v1/ping", "code", -1020, "BTC-PERPETUAL"),
        ("GET", "/openapi/v1/spot/openOrders", "code", "10000", "spot/orderBook"),
        ("POST", "/v1/balances", "reason", "EndpointNotFound", "/api/v2"),
        ("GET", "/v1/heartbeat", "reason", "EndpointNotFound", "/v1/symbols"),
    ]:
        answer = requests.request(verb, venue.http_url + path, timeout=PATIENCE_S)
        body = answer.json()
        assert (answer.status_code, body[key]) == (404, code), (path, body)
        assert part in (body.get("msg") or body["message"]), body
    average = requests.get(f"{venue.http_url}/api/v3/avgPrice?symbol=BTCUSDC", timeout=PATIENCE_S).json()
    assert average["mins"] == 5 and 50_000 < float(average["price"]) < 70_000, average
    feed = requests.get(f"{venue.http_url}/v1/pricefeed", timeout=PATIENCE_S).json()
    symbols = requests.get(f"{venue.http_url}/v1/symbols", timeout=PATIENCE_S).json()
    assert {pair["pair"].lower() for pair in feed} == set(symbols)
    assert all(float(pair["price"]) > 0 and abs(float(pair["percentChange24h"])) < 100 for pair in feed)


def test_a_missing_price_limit_is_not_the_largest_price_of_the_engine(venue: Venue) -> None:
    info, prices = (
        requests.get(f"{venue.http_url}/api/v3/{path}", timeout=PATIENCE_S).json()
        for path in ("exchangeInfo", "ticker/price")
    )
    last = {row["symbol"]: float(row["price"]) for row in prices}
    limits = {
        symbol["symbol"]: float(limit["maxPrice"])
        for symbol in info["symbols"]
        for limit in symbol["filters"]
        if limit["filterType"] == "PRICE_FILTER"
    }
    assert set(limits) == set(last) and "BTCUSDC" in limits
    # The largest price of the engine is 2,147,483,647.5 USDC.
    assert all(last[name] < most < 2_000 * last[name] for name, most in limits.items()), limits


def test_numbers_have_no_holes(venue: Venue) -> None:
    async def scenario() -> None:
        async with (
            stream(venue, "/v1/marketdata/btcusdc?heartbeat=true") as gemini,
            stream(venue, "/v1/multimarketdata?symbols=BTCUSDC,NPNZAR") as several,
            stream(venue, "/message/realtime?subscribe=ORDERBOOK:BTC-USDC") as bithumb,
        ):
            taken = await asyncio.gather(*(take(socket, 25) for socket in (gemini, several, bithumb)))
            one, two, three = ([json.loads(text) for text in texts] for texts in taken)
            for messages in (one, two):
                assert [message["socket_sequence"] for message in messages] == list(range(25))
            assert [message["code"] for message in three[:3]] == ["00002", "00006", "00007"]
            versions = [int(message["data"]["ver"]) for message in three[1:]]
            assert versions == list(range(versions[0], versions[0] + 24))

    asyncio.run(scenario())


def test_streams_are_taken_and_left_by_message(venue: Venue) -> None:
    async def scenario() -> None:
        async with stream(venue, "/ws") as socket:

            async def ask(text: str) -> Any:
                await socket.send(text)
                async with asyncio.timeout(PATIENCE_S):
                    while True:
                        answer = json.loads(await socket.recv())
                        if "e" not in answer and "stream" not in answer:
                            return answer

            assert await ask('{"method":"SUBSCRIBE","params":["btcusdc@trade"],"id":1}') == {"result": None, "id": 1}
            assert json.loads((await take(socket, 1))[0])["e"] == "trade"
            assert (await ask('{"method":"LIST_SUBSCRIPTIONS","id":"x"}'))["result"] == ["btcusdc@trade"]
            assert (await ask('{"method":"SET_PROPERTY","params":["combined",true],"id":2}'))["result"] is None
            wrapped = [json.loads(text) for text in await take(socket, 1)]
            assert wrapped[0]["stream"] == "btcusdc@trade"
            assert (await ask('{"method":"SUBSCRIBE","params":["unknown@trade"],"id":3}'))["code"] == 2
            assert (await ask("nonsense"))["code"] == 2
            assert (await ask('{"method":"UNSUBSCRIBE","params":["btcusdc@trade"],"id":4}'))["id"] == 4
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(socket.recv(), 1.0)
            await socket.send(b"\x00")
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await asyncio.wait_for(socket.recv(), PATIENCE_S)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1003

    asyncio.run(scenario())


def test_a_request_that_is_too_large_ends_its_connection(venue: Venue) -> None:
    async def scenario() -> None:
        names = json.dumps(["btcusdc@trade"] * 1_000)
        async with stream(venue, "/ws") as socket:
            await socket.send(f'{{"method":"SUBSCRIBE","params":{names},"id":1}}')
            assert json.loads((await take(socket, 1))[0])["id"] == 1
            await socket.send("x" * 70_000)
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await take(socket, 10_000)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009

    asyncio.run(scenario())


def test_readers_of_one_address_are_limited(tmp_path_factory: pytest.TempPathFactory) -> None:
    async def scenario(venue: Venue) -> None:
        async with stream(venue, "/ws/btcusdc@trade") as one, stream(venue, "/v1/marketdata/btcusdc") as two:
            with pytest.raises(websockets.InvalidStatus) as refused:
                async with stream(venue, "/ws"):
                    pass
            assert refused.value.response.status_code == 429
            await one.close()
            await take(two, 1)
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    with contextlib.suppress(websockets.InvalidStatus):
                        async with stream(venue, "/ws/npnzar@depth") as three:
                            await take(three, 1)
                            return

    data = tmp_path_factory.mktemp("limited") / "data"
    config = data.parent / "limits.toml"
    config.write_text("[limits]\nconnections_per_address = 2\n")
    with Venue(data, extra=["--config", str(config)]) as venue:
        asyncio.run(scenario(venue))


def test_stopping_venue_sends_a_close_frame_to_readers(tmp_path_factory: pytest.TempPathFactory) -> None:
    async def scenario(venue: Venue) -> None:
        async with stream(venue, "/ws/npnzar@trade/btcusdc@trade") as socket:
            await take(socket, 1)
            stopped = asyncio.to_thread(venue.stop)
            waiting = asyncio.create_task(stopped)
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await take(socket, 10_000)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
            assert await waiting == 0

    with Venue(tmp_path_factory.mktemp("stopping") / "data") as venue:
        asyncio.run(scenario(venue))
