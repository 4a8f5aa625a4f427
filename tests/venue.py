"""A real venue in a separate process: started, killed, stopped, and always cleaned up."""

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

TOP = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("PITWIRE_BIN", TOP / "target/release/pitwire"))
# Another build of the same source, for comparison.
DEBUG_BINARY = Path(os.environ.get("PITWIRE_DEBUG_BIN", TOP / "target/debug/pitwire"))
START_PATIENCE_S = 60.0
STOP_PATIENCE_S = 60.0

SHARES = ["NPN", "SBK", "AGL", "BHG", "SOL", "MTN", "FSR", "AUC"]
INSTRUMENTS = [*(f"{share}_ZAR" for share in SHARES), "BTC_USDC", "ETH_USDC", "BTC-PERPETUAL"]
CURRENCIES = ["ZAR", "USDC", "BTC", "ETH", *SHARES]
OPENING_BALANCES = {"ZAR": 10_000_000, "USDC": 1_000_000, "BTC": 20, "ETH": 200} | dict.fromkeys(SHARES, 10_000)


@dataclass(frozen=True)
class Credentials:
    client_id: str
    secret: str


DEMO_A = Credentials("demo-a", "demo-a-secret")
DEMO_B = Credentials("demo-b", "demo-b-secret")
OPERATOR = Credentials("demo-operator", "demo-operator-secret")


def run_pitwire(*args: str | Path, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Runs a subcommand to its end."""
    return subprocess.run([BINARY, *args], capture_output=True, text=True, timeout=timeout_s, check=False)


@dataclass
class Venue:
    """`pitwire up` on a data directory that outlives the process."""

    data: Path
    extra: list[str] = field(default_factory=list)
    preset: str = "demo"
    # A fresh demo venue would simulate six hours first; most tests need an empty market. None
    # leaves the default.
    warm_up: str | None = "0"
    listen: str = "127.0.0.1:0"
    address: str = ""
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Venue":
        self.launch()
        assert self.process is not None
        deadline = time.monotonic() + START_PATIENCE_S
        while not self.ready_file.exists():
            code = self.process.poll()
            assert code is None, f"pitwire up ended with {code} before it was ready:\n{self.log_tail()}"
            assert time.monotonic() < deadline, f"not ready after {START_PATIENCE_S} s:\n{self.log_tail()}"
            time.sleep(0.01)
        ready = json.loads(self.ready_file.read_text())
        assert ready["pid"] == self.process.pid
        self.address = ready["http"]
        return self

    def launch(self) -> None:
        """Starts the process without waiting."""
        assert BINARY.exists(), f"{BINARY} does not exist: build it with `make test`, or set PITWIRE_BIN"
        self.data.parent.mkdir(parents=True, exist_ok=True)
        command = [BINARY, "up", "--preset", self.preset, "--data", self.data, "--http", self.listen]
        command += ["--ready-file", self.ready_file, *self.extra]
        if self.warm_up is not None:
            command += ["--warm-up", self.warm_up]
        # The venue removes an old ready file; a test that looked too early would use a dead port.
        self.ready_file.unlink(missing_ok=True)
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        return self._end(signal.SIGTERM)

    def wait(self, timeout_s: float = STOP_PATIENCE_S) -> int:
        assert self.process is not None
        return self.process.wait(timeout_s)

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def log_tail(self, lines: int = 30) -> str:
        text = self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    @property
    def ready_file(self) -> Path:
        return self.data.parent / f"{self.data.name}.ready.json"

    @property
    def log_file(self) -> Path:
        return self.data.parent / f"{self.data.name}.log"

    @property
    def http_url(self) -> str:
        return f"http://{self.address}"

    @property
    def ws_url(self) -> str:
        return f"ws://{self.address}/ws/api/v2"

    def _end(self, how: signal.Signals) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still running {STOP_PATIENCE_S} s after {how.name}:\n{self.log_tail()}") from None

    def __enter__(self) -> "Venue":
        return self.start()

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        if self.alive():
            self.kill()


# Configuration of one more currency, and of one more instrument in it.
XYZ_MARKET = """[[currency]]
name = "XYZ"
decimals = 0

[[instrument]]
name = "XYZ_ZAR"
base = "XYZ"
quote = "ZAR"
tick = "0.05"
lot = "1"
start_price = "12.50"
"""
