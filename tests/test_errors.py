"""One family; messages that say what would be right; all survive a trip between processes."""

import pickle

import pytest

from taskengine import errors
from taskengine.errors import (
    BrokerUnavailable,
    ExecutionEmptied,
    ExecutionNotFound,
    JobDisabled,
    KeyTooLong,
    PayloadError,
    StoreBusy,
    StoreRequired,
    StoreUnavailable,
    TaskEngineError,
    UnknownJob,
    UnknownQueue,
    UnknownStore,
    is_away,
    nearest,
)

BUILT = [
    PayloadError("$.items[3].price", "NaN is no JSON; send a string"),
    UnknownJob("send-paystup", ["send-paystub", "nightly-totals"]),
    UnknownQueue("payrol", ["payroll"]),
    UnknownStore("9999"),
    JobDisabled("send-paystub"),
    KeyTooLong("ü" * 200),
    StoreRequired("nightly-totals"),
    ExecutionNotFound(4711),
    ExecutionEmptied(4711),
]


def family() -> list[type[TaskEngineError]]:
    found, queue = [], [TaskEngineError]
    while queue:
        found.append(kind := queue.pop())
        queue += kind.__subclasses__()
    return [kind for kind in found if kind.__module__ == errors.__name__]


def test_everything_here_is_of_the_family() -> None:
    names = {name for name, each in vars(errors).items() if isinstance(each, type)}
    assert {kind.__name__ for kind in family()} == names - {"Iterable"}


@pytest.mark.parametrize("error", BUILT, ids=lambda error: type(error).__name__)
def test_survives_pickling(error: TaskEngineError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (BUILT[0], "payload at $.items[3].price: NaN is no JSON; send a string"),
        (BUILT[1], "unknown job 'send-paystup', did you mean 'send-paystub'?"),
        (BUILT[3], "unknown store '9999' (known: none)"),
        (BUILT[5], "has 400 bytes, at most 255"),
        (BUILT[6], "dispatch_stores()"),
    ],
)
def test_says_what_would_be_right(error: TaskEngineError, words: str) -> None:
    assert words in str(error)


def test_nearest_takes_case_and_underscores_for_typing_errors() -> None:
    assert nearest("Send_Paystub", ["send-paystub"]) == ", did you mean 'send-paystub'?"
    assert nearest("xyz", ["send-paystub"]) == ""


def test_a_long_list_of_names_is_cut() -> None:
    text = str(UnknownJob("x", [f"job-{n:03}" for n in range(100)]))
    assert "and 80 more" in text


def test_away_means_every_leaf_of_a_group() -> None:
    away = [StoreUnavailable("x"), StoreBusy("x"), BrokerUnavailable("x")]
    assert all(is_away(error) for error in away)
    assert is_away(ExceptionGroup("g", [away[0], ExceptionGroup("h", away[1:])]))
    assert not is_away(ExceptionGroup("g", [away[0], ValueError()]))
    assert not is_away(ConnectionError())


def test_a_key_that_is_no_text_still_has_a_message() -> None:
    assert "bytes" in str(KeyTooLong("\ud800" * 300))
