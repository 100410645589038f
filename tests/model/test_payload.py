"""Payloads of functions and models: checked when dispatched and again when run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from taskengine.errors import InvalidSetting, PayloadError
from taskengine.model import payload

MORNING = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)


class Model(BaseModel):
    total: Decimal
    when: datetime


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


async def send(
    ctx: object, employee: int, amount: Decimal, on: date = date(2026, 1, 1)
) -> None: ...


async def tagged(
    ctx: object,
    *,
    json: list[str],
    model_config: int = 0,
    ratio: Annotated[float, Field(ge=0)] = 0.5,
    anything: Any = None,
    _hidden: int = 0,
) -> None: ...


def of(fn: Callable[..., Any]) -> payload.PayloadModel:
    model = payload.signature_model(fn)
    assert model is not None
    return model


def test_a_call_is_checked_and_comes_back_in_its_types() -> None:
    text = of(send).dump((7,), {"amount": Decimal("1.10")})
    assert text == '{"employee":7,"amount":"1.10"}'
    assert of(send).load(text) == {"employee": 7, "amount": Decimal("1.10")}
    text = of(send).dump((7, Decimal(1), date(2026, 2, 3)), {})
    assert of(send).load(text)["on"] == date(2026, 2, 3)


def test_money_from_a_json_number_keeps_its_digits() -> None:
    text = '{"employee":7,"amount":1.10}'
    assert str(of(send).load(text)["amount"]) == "1.10"
    text = '{"employee":7,"amount":12345678901234567890.123456789}'
    assert str(of(send).load(text)["amount"]) == "12345678901234567890.123456789"


def test_parameters_may_have_any_name() -> None:
    values = {"json": ["a"], "model_config": 1, "ratio": 0.25, "anything": {"x": 1}, "_hidden": 2}
    assert of(tagged).load(of(tagged).dump((), values)) == values


@pytest.mark.parametrize(
    ("args", "kwargs", "path", "problem"),
    [
        (("x", 1), {}, "$.employee", "valid integer"),
        ((1,), {}, "$", "amount"),
        ((1, 2, 3, 4), {}, "$", "too many"),
        ((1, 2), {"other": 3}, "$", "other"),
        ((1, "NaN"), {}, "$.amount", "finite"),
    ],
)
def test_calls_that_do_not_fit(
    args: tuple[Any, ...], kwargs: dict[str, Any], path: str, problem: str
) -> None:
    with pytest.raises(PayloadError) as refused:
        of(send).dump(args, kwargs)
    assert refused.value.path == path
    assert problem in refused.value.problem


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"json": ["a", 1]}, "$.json[1]"),
        ({"json": ["\0"]}, "$.json[0]"),
        ({"json": [], "ratio": -1}, "$.ratio"),
        ({"json": [], "ratio": float("nan")}, "$.ratio"),
        ({"json": [], "anything": {"deep": [float("inf")]}}, "$.anything.deep[0]"),
        ({"json": [], "anything": {"deep": {1, object()}}}, "$"),
        ({"json": [], "zz": 1}, "$.zz"),
    ],
)
def test_values_by_name_that_do_not_fit(values: dict[str, Any], path: str) -> None:
    with pytest.raises(PayloadError) as refused:
        of(tagged).check(values)
    assert refused.value.path == path


def test_no_secret_is_shown_in_an_error() -> None:
    with pytest.raises(PayloadError) as refused:
        of(send).load('{"employee":"hunter2","amount":1}')
    assert "hunter2" not in str(refused.value)


def test_a_function_without_parameters_has_no_payload() -> None:
    async def nightly(ctx: object) -> None: ...

    assert payload.signature_model(nightly) is None
    assert payload.signature_model(lambda: None, skip_first=False) is None


def test_signatures_that_no_payload_can_fill() -> None:
    async def stars(ctx: object, *ids: int) -> None: ...
    async def named(ctx: object, **ids: int) -> None: ...
    async def placed(ctx: object, employee: int, /) -> None: ...
    async def opaque(ctx: object, thing: Hostile) -> None: ...

    for fn in (stars, named, placed, opaque):
        with pytest.raises(InvalidSetting, match=fn.__name__):
            payload.signature_model(fn)


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    when: date
    amount: Decimal = Field(alias="sum", default=Decimal(0))


def test_a_model_comes_back_as_an_equal_instance() -> None:
    kind = payload.model_payload(Strict)
    data = Strict(when=date(2026, 1, 2), sum=Decimal("1.10"))
    assert kind.dump(data) == '{"when":"2026-01-02","sum":"1.10"}'
    assert kind.load(kind.dump(data)) == data


def test_a_models_money_keeps_its_digits() -> None:
    loaded = payload.model_payload(Model).load('{"total":1.10,"when":"2026-01-02T00:00:00Z"}')
    assert str(loaded.total) == "1.10"


def test_a_broken_instance_is_not_dispatched() -> None:
    broken = Model.model_construct(total="much", when=MORNING)
    with pytest.warns(UserWarning, match="total"), pytest.raises(PayloadError) as refused:
        payload.model_payload(Model).dump(broken)
    assert refused.value.path == "$.total"
    with pytest.raises(PayloadError, match="expected Model"):
        payload.model_payload(Model).dump("x")  # type: ignore[arg-type]


class Loose(BaseModel):
    anything: Any


def test_a_number_that_is_none_does_not_silently_become_null() -> None:
    with pytest.raises(PayloadError) as refused:
        payload.model_payload(Loose).dump(Loose(anything={"a": [1, float("nan")]}))
    assert refused.value.path == "$.anything.a[1]"


def test_values_by_name_become_a_model() -> None:
    kind = payload.model_payload(Model)
    text = kind.check({"total": "5.50", "when": MORNING})
    assert kind.load(text) == Model(total=Decimal("5.50"), when=MORNING)
    with pytest.raises(PayloadError) as refused:
        kind.check({"total": 1})
    assert refused.value.path == "$.when"
