"""How the whole installation is doing: a word, what is wrong, and the findings behind it.

Guarantees: `healthy` means that nothing is known to stand in the way of any execution; `down` that
no daemon runs. Works with every daemon down and with Redis away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taskengine.insight import findings
from taskengine.insight.findings import Findings
from taskengine.insight.problems import Problem, notes, problems
from taskengine.lifecycle.parts import Parts

HEALTHY, DEGRADED, DOWN = "healthy", "degraded", "down"


@dataclass(frozen=True, slots=True)
class Status:
    """`word`: healthy, degraded or down; `notes`: worth knowing, and nobody's fault."""

    word: str
    problems: Sequence[Problem]
    notes: Sequence[str]
    findings: Findings


async def read(parts: Parts) -> Status:
    """Look at both stores now. Raises `StoreUnavailable` where Postgres is away."""
    return judge(await findings.read(parts))


def judge(found: Findings) -> Status:
    """The same for findings that were read already."""
    wrong = problems(found)
    working = DEGRADED if wrong else HEALTHY
    told = [each.text for each in notes(found)]
    return Status(working if found.living else DOWN, wrong, told, found)
