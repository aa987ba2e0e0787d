"""The exceptions of the package."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft._check import Report

_LOCATION = re.compile(r"(?P<file>.*?):(?P<line>\d+):(?P<column>\d+): ", re.DOTALL)


class Error(Exception):
    """The base of all errors of weft.

    `status` is the name of the C library's status, such as "USAGE" or "SCHEDULE".
    """

    def __init__(self, message: str, status: str = "INTERNAL") -> None:
        super().__init__(message)
        self.status = status


class UsageError(Error, ValueError):
    """An argument has a wrong value, or arguments contradict each other."""

    def __init__(self, message: str, status: str = "USAGE") -> None:
        super().__init__(message, status)


class ScheduleError(Error):
    """A schedule is wrong.

    If the place of the error is known, `rank` is its rank, `position` is the index of the
    action in the rank's list, and `action` is the action, such as "2RECV_B0".  `cause` is the
    rule that is violated, such as "channel" or "deadlock".  `report` has all findings.
    """

    def __init__(self, message: str, status: str = "SCHEDULE") -> None:
        super().__init__(message, status)
        self.rank: int | None = None
        self.position: int | None = None
        self.action: str | None = None
        self.cause: str | None = None
        self.report: Report | None = None


class ParseError(Error, ValueError):
    """A text cannot be read.  `file`, `line` and `column` are the place of the error."""

    def __init__(self, message: str, status: str = "SCHEDULE") -> None:
        super().__init__(message, status)
        self.file: str | None = None
        self.line: int | None = None
        self.column: int | None = None


def from_status(status: str, message: str) -> Error:
    """Makes the exception for an error of the C library, which calls this function."""
    match = _LOCATION.match(message)
    if status in ("SCHEDULE", "DATA") and match is not None:
        error = ParseError(message, status)
        error.file = match["file"]
        error.line = int(match["line"])
        error.column = int(match["column"])
        return error
    if status == "SCHEDULE":
        return ScheduleError(message)
    if status == "USAGE":
        return UsageError(message)
    return Error(message, status)
