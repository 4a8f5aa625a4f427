"""Exceptions of the package. Each has `what` is wrong and a `remedy`."""

__all__ = [
    "CallRefused",
    "CallUnanswered",
    "ConnectionFailed",
    "DataDirectoryError",
    "EngineFailed",
    "EventBufferFull",
    "Interrupted",
    "InvalidArray",
    "InvalidValue",
    "OrderRefused",
    "PitwireError",
    "UnknownName",
    "UnsupportedCall",
    "VenueBusy",
    "VenueClosed",
    "VenueFailed",
    "VenueForked",
]


class _WithRemedy(BaseException):
    """An exception with the action that resolves it."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what} ({self.remedy})"


class PitwireError(_WithRemedy, Exception):
    """An error with the action that resolves it."""


class InvalidValue(PitwireError, ValueError):
    """An argument is not in its range."""


class InvalidArray(PitwireError, TypeError):
    """An array has the wrong type or the wrong shape."""


class UnknownName(PitwireError, LookupError):
    """No instrument, account or currency has this name."""


class OrderRefused(PitwireError):
    """The engine refused a command, and the caller required that it be accepted."""


class VenueClosed(PitwireError):
    """The venue was closed."""


class VenueBusy(PitwireError):
    """Another thread is using the venue."""


class VenueForked(PitwireError):
    """The process was forked from the process that created the venue."""


class VenueFailed(PitwireError):
    """The venue cannot start, or cannot write its journal."""


class DataDirectoryError(PitwireError):
    """The data directory has another owner, holds a run, or cannot be written."""


class EventBufferFull(PitwireError):
    """The recorded events have reached `max_events`. The command was not executed."""


class EngineFailed(PitwireError):
    """The engine panicked. This is a defect of Pitwire."""


class ConnectionFailed(PitwireError, ConnectionError):
    """A running venue cannot be reached, or the connection to it was lost."""


class CallUnanswered(PitwireError, TimeoutError):
    """No answer came. The call may have taken effect."""


class CallRefused(PitwireError):
    """A running venue refused the call. `code` and `reason` are those of its answer."""

    code: int = 0
    reason: str | None = None


class UnsupportedCall(PitwireError):
    """A connected venue does not have this call."""


class Interrupted(_WithRemedy, KeyboardInterrupt):
    """Ctrl-C during a long call. The venue is between two commands and can be used further."""
