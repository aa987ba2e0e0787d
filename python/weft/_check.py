"""Proofs: the findings of the verifier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from weft import _weft
from weft._errors import ScheduleError, UsageError
from weft._values import choice, text

# The lowering with which a schedule without messages is proven, for each model of channels.
# weft's own lowering needs a queue per direction of data.
_LOWERINGS = {"direction": "weft", "pair": "torch-2.10"}


@dataclass(frozen=True)
class Finding:
    """One violated rule.

    `position` is the index of the action in the rank's list of actions, and `action` is the
    action itself; both are None if the finding has no place, and `action` is None at the end of
    the list.
    """

    rule: str
    text: str
    rank: int | None
    position: int | None
    action: str | None


@dataclass(frozen=True)
class Wait:
    """One rank of a deadlock: it stops at `action` and waits for `for_action` of `for_rank`."""

    rank: int
    action: str
    for_rank: int
    for_action: str


@dataclass(frozen=True)
class Report:
    """The result of a proof.

    `n_findings` is the number of all findings; `findings` has the first 64.  `enough_depth` is
    the smallest depth of channels without a deadlock, or 0.  `lowering` is the way in which
    messages were added, or None if the schedule has messages.
    """

    ok: bool
    n_findings: int
    findings: list[Finding]
    cycle: list[Wait]
    channels: str
    transport: str
    lowering: str | None
    n_compute: int
    n_messages: int
    n_channels: int
    peak_activations: list[int]
    enough_depth: int

    def raise_if_wrong(self, name: str = "the schedule") -> None:
        """Raises ScheduleError with the first finding, if there is one."""
        if self.ok:
            return
        first = self.findings[0]
        more = f" (and {self.n_findings - 1} more)" if self.n_findings > 1 else ""
        error = ScheduleError(f"{name} is wrong: {first.text}{more}")
        error.rank, error.position = first.rank, first.position
        error.action, error.cause = first.action, first.rule
        error.report = self
        raise error


def check_torch(handle: Any, report: Report) -> Report:
    """Adds what torch refuses or runs with wrong results to the report of a correct one."""
    found = [
        Finding(f"torch {severity}", text, rank, position, action)
        for severity, text, rank, position, action in _weft.torch_check(handle)
        if severity != "note"
    ]
    return replace(report, ok=not found, findings=found, n_findings=len(found))


def require_torch(handle: Any, name: str) -> None:
    """Raises ScheduleError with the reason if torch cannot run a schedule as it is.

    A schedule with messages is also proven with one queue per pair of ranks.
    """
    if _weft.schedule_info(handle)["lowered"]:
        verify(handle, "pair", "buffered", None).raise_if_wrong(name)
    for severity, reason, rank, position, action in _weft.torch_check(handle):
        if severity != "note":
            error = ScheduleError(f"PyTorch cannot run {name}: {reason}")
            error.rank, error.position = rank, position
            error.action, error.cause = action, f"torch {severity}"
            raise error


def lowerings() -> list[str]:
    """Returns the names of the ways to add messages to a schedule."""
    names: list[str] = _weft.lowerings()
    return names


def lower(handle: Any, how: Any) -> Any:
    """Adds messages to a schedule."""
    return _weft.lower(handle, choice(how, lowerings(), "lower"))


def verify(handle: Any, channels: Any, transport: Any, how: Any) -> Report:
    """Proves a schedule; one without messages also with the messages of a lowering."""
    channels = choice(channels, ("direction", "pair"), "channels")
    name = text(transport, "transport")
    if name is None:
        raise UsageError("transport: expected buffered, rendezvous or depth=N")
    result = _weft.verify(handle, name, channels == "pair")
    lowering = None
    if result["n_findings"] == 0 and not _weft.schedule_info(handle)["lowered"]:
        lowering = how if how is not None else _LOWERINGS[channels]
        result = _weft.verify(lower(handle, lowering), name, channels == "pair")
    return Report(
        ok=result["n_findings"] == 0,
        n_findings=result["n_findings"],
        findings=[Finding(*finding) for finding in result["findings"]],
        cycle=[Wait(*wait) for wait in result["cycle"]],
        channels=channels,
        transport=str(transport),
        lowering=lowering,
        n_compute=result["compute"],
        n_messages=result["messages"],
        n_channels=result["channels"],
        peak_activations=result["peak_activations"],
        enough_depth=result["enough_depth"],
    )
