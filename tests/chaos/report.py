"""What came of a run: figures, faults, recoveries, and each violation with its history."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.chaos.plan import Step


@dataclass
class Violation:
    """A promise that was not kept."""

    kind: str
    detail: str
    execution_id: int | None = None
    history: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@dataclass
class Struck:
    """A fault as it happened: seconds since the start. `recovery`: None while it lasts.

    `disturbed`: another fault lasted while it recovered; `last`: what recovered last,
    with its history where that was slow.
    """

    step: Step
    about: str
    begun: float
    ended: float | None = None
    recovery: float | None = None
    recovered: bool = False
    disturbed: bool = False
    last: str = ""
    history: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        ended = "…" if self.ended is None else f"{self.ended:.1f}"
        return f"{self.begun:.1f}-{ended} s {self.step.kind} {self.about}"


@dataclass
class Report:
    """All of it."""

    seed: int
    minutes: float
    daemons: int
    struck: list[Struck] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    ends: list[tuple[str, int]] = field(default_factory=list)

    def during(self, at: float | None) -> list[str]:
        """The faults around this second of the run."""
        if at is None:
            return [str(each) for each in self.struck[-4:]]
        return [str(s) for s in self.struck if s.begun - 5 <= at <= (s.ended or at) + 15]

    @property
    def ok(self) -> bool:
        return not self.violations

    def kinds(self) -> dict[str, dict[str, Any]]:
        """For each kind: how often, the longest recovery, and the longest without another fault."""
        counts = Counter(each.step.kind for each in self.struck)
        return {
            kind: {
                "times": counts[kind],
                "longest": _longest(self._of(kind)),
                "undisturbed": _longest([s for s in self._of(kind) if not s.disturbed]),
                "last": max(self._of(kind), key=lambda s: s.recovery or 0.0).last,
            }
            for kind in sorted(counts)
        }

    def _of(self, kind: str) -> list[Struck]:
        return [each for each in self.struck if each.step.kind == kind]

    def as_json(self) -> str:
        return json.dumps(
            {
                "seed": self.seed,
                "minutes": self.minutes,
                "daemons": self.daemons,
                "ok": self.ok,
                "figures": self.figures,
                "faults": len(self.struck),
                "kinds": self.kinds(),
                "counts": self.counts,
                "ends": self.ends,
                "violations": [asdict(each) for each in self.violations],
            },
            indent=1,
        )

    def as_text(self) -> str:
        lines = [f"seed {self.seed} · {self.minutes:g} min · {self.daemons} daemons"]
        lines += [f"  {name:<28}{value}" for name, value in self.figures.items()]
        lines += [f"  {name:<28}{value}" for name, value in sorted(self.counts.items())]
        lines.append(
            f"{len(self.struck)} faults of {len(self.kinds())} kinds; longest recovery in s"
        )
        lines.append(f"  {'kind':<28}{'times':>6}{'longest':>10}{'undisturbed':>13}")
        for kind, row in self.kinds().items():
            cells = f"{row['times']:>6}{_shown(row['longest']):>10}{_shown(row['undisturbed']):>13}"
            lines.append(f"  {kind:<28}{cells}  {row['last']}")
        slow = [s for s in self.struck if s.history]
        for struck in sorted(slow, key=lambda s: -(s.recovery or 0.0))[:4]:
            lines.append(f"slow: {struck} recovered after {struck.recovery:.1f} s")
            lines += [f"    {line}" for line in (*struck.history, *self.during(struck.ended))]
        for violation in self.violations:
            lines.append(f"VIOLATION {violation.kind}: {violation.detail}")
            lines += [f"    {line}" for line in (*violation.history, *violation.faults)]
        lines.append(
            "ok: every promise was kept" if self.ok else f"{len(self.violations)} violations"
        )
        return "\n".join(lines)


def _longest(struck: Sequence[Struck]) -> float | None:
    return max((s.recovery for s in struck if s.recovery is not None), default=None)


def _shown(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.1f}"
