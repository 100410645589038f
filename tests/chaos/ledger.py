"""What was promised: every execution and every event that somebody was told is kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Ledger:
    """`promised`: execution id → job. `events`: ids of webhook events answered with 2xx."""

    promised: dict[int, str] = field(default_factory=dict)
    keys: dict[tuple[str, str], int] = field(default_factory=dict)
    events: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def promise(self, job: str, key: str, execution_id: int) -> None:
        """A dispatch was answered. The same key must always be the same execution (I3)."""
        first = self.keys.setdefault((job, key), execution_id)
        if first != execution_id:
            self.wrong.append(f"{job} {key}: execution {first}, later {execution_id}")
        self.promised[execution_id] = job
        self.counts["dispatched"] += 1
