"""A worker program: copies what each of its pipes carries to OUT.0, OUT.1, … and ends when they
end.

pipe_worker.py OUT [--stop-first] DESCRIPTOR...: with --stop-first it reads nothing of its first pipe until a line
comes in OUT.go (a file that the test makes).
"""

import os
import sys
import threading
import time
from pathlib import Path

out, *rest = sys.argv[1:]
stops_first = "--stop-first" in rest
descriptors = [int(text) for text in rest if text.isdigit()]


def copy(index: int, descriptor: int) -> None:
    if index == 0 and stops_first:
        while not Path(f"{out}.go").exists():
            time.sleep(0.01)
    with Path(f"{out}.{index}").open("wb", buffering=0) as to:
        while data := os.read(descriptor, 1 << 20):
            to.write(data)


Path(f"{out}.pid").write_text(str(os.getpid()))
threads = [threading.Thread(target=copy, args=pair) for pair in enumerate(descriptors)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
