"""A finding: something that is wrong, as people and machines read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from taskengine.insight.doctor.catalogue import CATALOGUE, SEVERITIES

SHOWN = 10  # ids of a finding that are shown


@dataclass(frozen=True, slots=True)
class Finding:
    """`code` is stable; `about`: the queue, job or table it is about; `ids`: executions (messages)
    that were seen, `count` of them; `command` mends it, or shows more of it."""

    code: str
    severity: str
    text: str
    command: str | None
    about: str = ""
    ids: Sequence[int | bytes] = ()
    count: int | None = None


def finding(
    code: str, text: str, about: str = "", ids: Sequence[int | bytes] = (), count: int | None = None
) -> Finding:
    """By the catalogue; NAME in its command is what it is about, ID the first id."""
    severity, command = CATALOGUE[code]
    if command is not None:
        first = next((str(each) for each in ids if isinstance(each, int)), "ID")
        command = command.replace("NAME", about or "NAME").replace(" ID", f" {first}")
    number = len(ids) if ids and count is None else count
    return Finding(code, severity, text, command, about, ids, number)


def confirmed(first: Sequence[Finding], second: Sequence[Finding]) -> list[Finding]:
    """Those of the second look that the first one saw: of the same thing, and of the same ids."""
    before = {(each.code, each.about): each for each in first}
    told = []
    for each in second:
        seen = before.get((each.code, each.about))
        if seen is None:
            continue
        known = frozenset(seen.ids)
        ids = [one for one in each.ids if one in known]
        if each.ids and not ids:
            continue
        told.append(replace(each, ids=ids, count=len(ids)) if ids else each)
    return told


def worst(found: Sequence[Finding]) -> int:
    """0: nothing, or notes; 1: warnings; 2: errors. The exit status of the command."""
    return max((SEVERITIES.index(each.severity) for each in found), default=0)
