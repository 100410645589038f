"""Any interleaving of the verbs, of their crashes and of their lost answers.

Each step says which moves may follow from it; whatever else moves, or is left in either store, is a
fault. At the end everything is healed, and nothing may be left undone.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.properties.healing import heal
from tests.properties.model import nothing
from tests.properties.shaky import Fault
from tests.properties.stage import WELL, Plan
from tests.properties.troubles import DISASTERS, LOOPS, OPERATORS, Troubles
from tests.properties.verbs import OUTCOMES, STEPS, Sent, Verbs

dispatches = st.tuples(
    st.sampled_from(["work", "work", "careful", "brittle"]),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([0.0, 0.0, 1800.0]),
    st.sampled_from([None, None, "x", "y"]),
)
plans = st.tuples(st.sampled_from([None, None, None, *Fault]), st.sampled_from([0, 0, 0, 1, 2]))
_outcomes = st.sampled_from(range(len(OUTCOMES)))
_acquire = st.tuples(st.just("acquire"), st.sampled_from(STEPS))
_settle = st.tuples(st.just("settle"), _outcomes)
_turn = st.tuples(st.just("acquire"), st.just("turn"))
steps = st.one_of(
    st.tuples(st.just("dispatch"), dispatches),
    st.tuples(st.just("dispatch"), dispatches),
    _acquire,
    _turn,
    _turn,
    _settle,
    _settle,
    st.tuples(st.just("settle_late"), _outcomes),
    st.tuples(st.just("stray"), st.none()),
    st.tuples(st.just("later"), st.sampled_from([2, 20, 3600])),
    st.tuples(st.just("loop"), st.sampled_from(LOOPS)),
    st.tuples(st.just("operate"), st.sampled_from(OPERATORS)),
    st.tuples(st.just("disaster"), st.sampled_from(DISASTERS)),
)


class Interleavings(Verbs, Troubles, RuleBasedStateMachine):
    """Two daemons, or three, on one site.

    One rule with the step as its argument: rules of their own are switched on and off by hypothesis
    as it likes, and most of its runs would never come to a settlement.
    """

    @initialize(
        survivors=st.sampled_from(["all", "one"]),
        direct=st.booleans(),
        third=st.booleans(),
        sent=st.lists(dispatches, min_size=3, max_size=8),
    )
    def begin(self, survivors: str, direct: bool, third: bool, sent: list[Sent]) -> None:
        self.survivors, self.direct = survivors, direct
        for unknown in [(), ("brittle",), ("work",)][: 2 + third]:
            self.site.do(self.site.join(*unknown))
        self.act(self.daemons[0], self.daemons[0].divergence.tick(), nothing)
        for each in sent:
            self.dispatch(self.daemons[0], 0, each, WELL)

    @rule(n=st.integers(0, 2), i=st.integers(0, 9), what=steps, plan=plans)
    def step(self, n: int, i: int, what: tuple[str, Any], plan: Plan) -> None:
        """`n`: which daemon, `i`: which of what there is; counted round."""
        self.broken = True
        name, argument = what
        getattr(self, name)(self.daemon(n), i, argument, plan)
        self.broken = False

    def teardown(self) -> None:
        """I1: whatever has happened, all of it ends, and nothing is left over."""
        if not self.broken and self.daemons:
            self._heal()
        super().teardown()

    def _heal(self) -> None:
        for name in self.site.parts.queues.names:
            self.site.do(self.site.pause(name, paused=False))
        self.model.paused.clear()
        if self.survivors == "one":
            for daemon in self.daemons[1:]:
                daemon.die()
            del self.daemons[1:]
        self.act(self.daemons[0], self.site.join(), nothing)  # one that knows every job
        alive = list(self.daemons)
        self.act(alive[0], heal(self.site, alive, direct=self.direct), lambda _: True)
