"""Latency laboratory: compares WebSocket clients on the same market-data messages."""

import os

# The matrices here are small. More BLAS threads only take CPU time away from the measured programs.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
