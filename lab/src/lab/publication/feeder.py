"""Fills a NATS subject at a fixed rate: `python -m lab.publication.feeder URL SUBJECT RATE BYTES`.

A message is `{"seq":N,"ts_ns":T,"pad":"x…"}`. T is the time at which it was due, in nanoseconds
since 1970. The line `feeding` on standard output says that the server has the first message.
"""

import asyncio
import sys
import time

import nats


def message(sequence: int, due_ns: int, size_bytes: int) -> bytes:
    head = f'{{"seq":{sequence},"ts_ns":{due_ns},"pad":"'
    return (head + "x" * max(0, size_bytes - len(head) - 2) + '"}').encode()


async def feed(url: str, subject: str, rate: float, size_bytes: int) -> None:
    connection = await nats.connect(url)
    start_ns, sequence = time.time_ns(), 0
    while True:
        due_ns = start_ns + int((sequence + 1) / rate * 1e9)
        wait_ns = due_ns - time.time_ns()
        if wait_ns > 0:
            await connection.flush()
            await asyncio.sleep(wait_ns / 1e9)
        sequence += 1
        await connection.publish(subject, message(sequence, due_ns, size_bytes))
        if sequence == 1:
            await connection.flush()
            print("feeding", flush=True)


if __name__ == "__main__":
    asyncio.run(feed(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])))
