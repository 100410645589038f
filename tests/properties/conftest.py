"""How many interleavings are tried: few and always the same ones, or many new ones for a soak."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "soak",
    max_examples=400,
    stateful_step_count=60,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
