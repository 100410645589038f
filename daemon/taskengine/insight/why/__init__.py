"""Why an execution has not run, is waiting, ran twice or failed, in plain words from both stores.

`read` gathers the facts at one moment, the pure `explain` says what they mean. Guarantees: the same
facts give the same words; works with every daemon down and with Redis away.
"""

from taskengine.insight.why.explain import Explanation, explain
from taskengine.insight.why.facts import Facts, Verdict
from taskengine.insight.why.history import Line
from taskengine.insight.why.read import read

__all__ = ["Explanation", "Facts", "Line", "Verdict", "explain", "read"]
