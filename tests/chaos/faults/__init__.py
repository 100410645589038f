"""What may go wrong, a class for each kind."""

from __future__ import annotations

from tests.chaos.faults import network, operators, postgres, processes, redis
from tests.chaos.faults.base import Fault

__all__ = ["KINDS", "Fault"]

KINDS: dict[str, type[Fault]] = {
    kind.kind: kind
    for room in (processes, redis, postgres, network, operators)
    for kind in room.KINDS
}
