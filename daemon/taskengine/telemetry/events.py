"""The seam between what happens and who tells of it: one event name per thing that happens.

Code says `emit("queue.promoted", queue="high", count=40)`; logs word it, metrics count it, and
neither is known here. Guarantees: an event that nobody wants costs one dict look-up; a listener
that raises is counted and never disturbs the engine; `emit` may be called from any thread.

A field `count` means "so many at once" (default 1). Names are `<thing>.<verb in the past>`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Fields = Mapping[str, Any]
Listener = Callable[[str, Fields], None]
Wants = Callable[[str], bool]

_subscribers: tuple[tuple[Listener, Wants | None], ...] = ()
_routes: dict[str, tuple[Listener, ...]] = {}
_broken: dict[str, int] = {}


def emit(event: str, /, **fields: Any) -> None:
    """Tell whoever wants this event. Never raises."""
    listeners = _routes.get(event)
    if listeners is None:
        listeners = _route(event)
    for listener in listeners:
        try:
            listener(event, fields)
        except Exception:  # a witness must not stop what it watches
            _broken[event] = _broken.get(event, 0) + 1


def heard(event: str) -> bool:
    """Whether anyone wants this event: ask before computing costly fields."""
    listeners = _routes.get(event)
    return bool(_route(event) if listeners is None else listeners)


def subscribe(listener: Listener, wants: Wants | None = None) -> Callable[[], None]:
    """Have `listener(event, fields)` called for each event it wants (default: all).

    `wants(event)` is asked once per event name and remembered until `refresh()`.
    Returns the function that ends the subscription.
    """
    global _subscribers  # noqa: PLW0603  the process has one seam
    entry = (listener, wants)
    _subscribers = (*_subscribers, entry)
    refresh()

    def unsubscribe() -> None:
        global _subscribers  # noqa: PLW0603
        _subscribers = tuple(each for each in _subscribers if each is not entry)
        refresh()

    return unsubscribe


def refresh() -> None:
    """Ask every listener anew what it wants (a log level changed)."""
    global _routes  # noqa: PLW0603
    _routes = {}


def broken_listeners() -> dict[str, int]:
    """How often a listener raised, per event: 0 of them in a healthy process."""
    return dict(_broken)


def _route(event: str) -> tuple[Listener, ...]:
    routes, subscribers = _routes, _subscribers
    route = tuple(listener for listener, wants in subscribers if wants is None or wants(event))
    routes[event] = route
    return route
