# The public names with their homes, for type checkers: `__init__.py` hands them on lazily.

from taskengine.client import TaskEngine as TaskEngine
from taskengine.errors import ClaimLost as ClaimLost
from taskengine.errors import TaskEngineError as TaskEngineError
from taskengine.model.context import JobContext as JobContext
from taskengine.model.execution import Dispatched as Dispatched
from taskengine.model.execution import Execution as Execution
from taskengine.model.execution import State as State
from taskengine.model.function_job import job as job
from taskengine.model.job import BaseJob as BaseJob
from taskengine.model.job import Call as Call
from taskengine.model.job import JobResult as JobResult
from taskengine.model.outcome import Discard as Discard
from taskengine.model.outcome import Retry as Retry
from taskengine.model.outcome import Snooze as Snooze
from taskengine.model.outcome import Verdict as Verdict
from taskengine.model.surroundings import StoreInfo as StoreInfo

__version__: str
