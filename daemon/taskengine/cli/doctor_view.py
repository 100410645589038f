"""How an examination is shown: the worst first, what it means, and the command that mends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taskengine.cli import out
from taskengine.cli.doctor_fixes import FIXES, Mended, fix
from taskengine.cli.words import clean
from taskengine.client import TaskEngine
from taskengine.insight.doctor.catalogue import ERROR, NOTE, SEVERITIES, WARNING
from taskengine.insight.doctor.examination import examine
from taskengine.insight.doctor.finding import SHOWN, Finding, worst
from taskengine.insight.doctor.jobs import unloadable

_COLOURS = {ERROR: 31, WARNING: 33, NOTE: 36}


@dataclass(frozen=True)
class Examined:
    """What was mended, and what is found (after that)."""

    found: Sequence[Finding]
    mended: Sequence[Mended]

    @property
    def status(self) -> int:
        return worst(self.found)


async def run(engine: TaskEngine, by: str, *, mends: bool, broken: str | None) -> Examined:
    """Look; mend and look again, if asked to. `broken`: why the jobs' code could not be loaded."""
    known = [] if broken is None else [unloadable(broken)]
    found = await examine(engine.parts)
    mended = await fix(engine.parts, found, by) if mends else []
    if mended:
        found = await examine(engine.parts)
    return Examined([*known, *found], mended)


def show(examined: Examined, *, as_json: bool) -> None:
    """One object, or a line for each."""
    if as_json:
        out.line(shape(examined))
        return
    for each in examined.mended:
        done = f"mended {each.code}" if each.error is None else f"could not mend {each.code}"
        out.put(f"{done}: {clean(each.did or each.error or '')}")
    for found in examined.found:
        _put(found)
    if not examined.found:
        out.put("nothing is wrong")


def _put(found: Finding) -> None:
    word = out.coloured(found.severity, _COLOURS[found.severity])
    out.put(f"{word} {found.code}: {clean(found.text)}")
    ids = [_text(each) for each in found.ids[:SHOWN]]
    if ids:
        more = " …" if len(found.ids) > SHOWN else ""
        out.put(f"  ids: {clean(' '.join(ids))}{more}")
    if found.command is not None:
        out.put(f"  → {clean(found.command)}")


def shape(examined: Examined) -> dict[str, object]:
    """The JSON object of an examination; its keys stay."""
    return {
        "severity": SEVERITIES[examined.status] if examined.found else None,
        "findings": [_shape(each) for each in examined.found],
        "mended": [each._asdict() for each in examined.mended],
    }


def _shape(found: Finding) -> dict[str, object]:
    return {
        "code": found.code,
        "severity": found.severity,
        "about": found.about or None,
        "text": found.text,
        "command": found.command,
        "fixable": found.code in FIXES,
        "count": found.count,
        "ids": [each if isinstance(each, int) else _text(each) for each in found.ids[:SHOWN]],
    }


def _text(member: int | bytes) -> str:
    return member.decode("utf-8", "replace") if isinstance(member, bytes) else str(member)
