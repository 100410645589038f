"""The exclusive key of an execution: given by the caller, else computed by the job's own hook.

Every dispatch asks here, whoever makes it: client, command line, schedule, webhook. Guarantees: a
key that comes back can be stored; a hook that raises refuses its dispatch by an error that names it,
because an execution without the key that its job wants would run beside another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from taskengine.errors import InvalidSetting, PayloadError
from taskengine.model.job import JobHandle
from taskengine.model.keys import check_key
from taskengine.model.registry import Registry
from taskengine.model.surroundings import StoreInfo
from taskengine.store import stores
from taskengine.store.pool import Store


class _Wanted(Protocol):
    @property
    def job(self) -> str: ...
    @property
    def type_num(self) -> str | None: ...
    @property
    def exclusive_key(self) -> str | None: ...


def given_or_own(
    given: str | None, handle: JobHandle | None, payload: str, store: StoreInfo | None
) -> str | None:
    """The key given, else the hook's; None: not exclusive. `payload` is JSON text.

    Raises `KeyTooLong`, `InvalidSetting`, and `PayloadError` where the payload does not fit the job.
    """
    if given is not None:
        return check_key(given, "exclusive_key")
    if handle is None or not handle.is_exclusive:
        return None
    what = f"exclusive_key of job {handle.name!r}"
    try:
        key = handle.exclusive_key(payload, store)
    except PayloadError:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidSetting(f"{what} raised {type(error).__name__}: {error}") from error
    return None if key is None else check_key(key, what)


async def stores_of(
    store: Store, registry: Registry, wanted: Iterable[_Wanted]
) -> Mapping[str, StoreInfo]:
    """The stores that the hooks of these dispatches are told of, by number; one that is missing is
    refused at the insert."""
    numbers = {
        each.type_num
        for each in wanted
        if each.type_num is not None
        and each.exclusive_key is None
        and (handle := registry.get(each.job)) is not None
        and handle.is_exclusive
    }
    if not numbers:
        return {}
    async with store.connection() as c:
        return {each.type_num: each for each in await stores.find(c, sorted(numbers))}
