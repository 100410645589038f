"""When a failed attempt runs again, and whether it does.

Guarantees: the formula of the engine's semantics, to the letter: exponential in the number of the
attempt to come, up to ten per cent of jitter on top, and the cap last, so that no delay is ever
longer than an hour. It cannot overflow at any attempt number.
"""

from __future__ import annotations

import math
import random

MAX_DELAY = 3600.0
JITTER = 0.10

# 2**1000 is far past the cap for any base that a float can hold apart from zero's neighbours, and
# 3600 * 2**1000 still fits in a float: the bound changes no result and rules an overflow out.
_MAX_EXPONENT = 1000


def backoff_delay(attempt_to_come: int, base: float, rng: random.Random) -> float:
    """Seconds to wait before attempt number `attempt_to_come` (2, 3, 4 …).

    `base` is the job's `retry_backoff` in seconds (0 to 3600). The second attempt comes after
    `base`, the third after twice that, and so on, each plus `uniform(0, 10 %)`, at most 3600.
    """
    exponent = min(max(0, attempt_to_come - 2), _MAX_EXPONENT)
    delay = math.ldexp(min(base, MAX_DELAY), exponent)
    jitter = rng.uniform(0.0, delay * JITTER)
    return min(delay + jitter, MAX_DELAY)


def may_retry(attempt: int, max_attempts: int) -> bool:
    """Whether the attempt that has just failed is followed by another one.

    Strictly less: `max_attempts = 3` means two automatic retries, 0 means none at all.
    """
    return attempt < max_attempts
