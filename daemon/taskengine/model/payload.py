"""A job's payload: checked when it is dispatched and again when it is run.

Guarantees: what `dump` writes, `load` reads back as the types that the job declares, `Decimal`
digit for digit; what does not fit is a `PayloadError` with the path of the part that is wrong,
never pydantic's own error. The plain JSON functions are handed on from here: `encode`, `decode`,
`loads_strict`, `check_size`, `encode_result`, `at_pointer`.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NotRequired, TypeGuard, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError
from typing_extensions import TypedDict

from taskengine.errors import InvalidSetting, PayloadError
from taskengine.model.json_check import path_text
from taskengine.model.json_pointer import MISSING, Missing, at_pointer
from taskengine.model.json_text import JsonValue, check_size, decode, encode, loads_strict
from taskengine.model.results import encode_result

__all__ = [
    "MISSING",
    "JsonValue",
    "Missing",
    "ModelPayload",
    "PayloadModel",
    "at_pointer",
    "check_size",
    "decode",
    "encode",
    "encode_result",
    "is_model",
    "loads_strict",
    "model_payload",
    "signature_model",
]

M = TypeVar("M", bound=BaseModel)

# pydantic's own JSON reader takes every fraction through a float. Only a text in which a fraction
# may stand is worth a second look; everything that `dump` wrote has its decimals as text.
_MAY_HOLD_FRACTION: Final = re.compile(r"[0-9](?:\.[0-9]|[eE])")

_NAMED = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}


class PayloadModel:
    """The payload of a function: its parameters after the context, by name."""

    def __init__(self, signature: inspect.Signature, adapter: TypeAdapter[dict[str, Any]]) -> None:
        self._signature = signature
        self._adapter = adapter

    def dump(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """JSON text of a call's arguments (the context left out), checked and in their types."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise PayloadError("$", f"{error}; expected {self._signature}") from None
        return self._text(bound.arguments)

    def check(self, values: Mapping[str, Any]) -> str:
        """The same for values given by name in a dict, as in a dispatch by the job's name."""
        return self._text(dict(values))

    def load(self, text: str) -> dict[str, Any]:
        """The keyword arguments of the call; what was left out keeps the function's default."""
        return _read(text, self._adapter.validate_json, self._adapter.validate_python)

    def arguments(self, text: str) -> dict[str, Any]:
        """The same with the function's defaults: for another function of the same parameters."""
        bound = self._signature.bind(**self.load(text))
        bound.apply_defaults()
        return dict(bound.arguments)

    def _text(self, values: dict[str, Any]) -> str:
        try:
            checked = self._adapter.validate_python(values)
            _refuse_lost_numbers(checked, ())
            return encode(self._adapter.dump_python(checked, mode="json"))
        except ValidationError as error:
            raise _payload_error(error) from None
        except PydanticSerializationError as error:
            raise PayloadError("$", f"no JSON for it: {error}") from None
        except UnicodeEncodeError:
            raise _surrogate(values) from None


class ModelPayload(Generic[M]):
    """The payload of a job that declares a pydantic model."""

    def __init__(self, model: type[M]) -> None:
        self.model = model

    def dump(self, instance: M) -> str:
        """JSON text of an instance; it is read back once, so a broken one never gets in."""
        if not isinstance(instance, self.model):
            found = type(instance).__name__
            raise PayloadError("$", f"expected {self.model.__name__}, got {found}")
        try:
            if "ser_json_inf_nan" not in self.model.model_config:
                _refuse_lost_numbers(instance.model_dump(by_alias=True), ())
            values = instance.model_dump(mode="json", by_alias=True, round_trip=True)
        except PydanticSerializationError as error:
            raise PayloadError("$", f"no JSON for it: {error}") from None
        except UnicodeEncodeError:
            raise _surrogate(instance.model_dump(by_alias=True)) from None
        text = encode(values)
        self.load(text)
        return text

    def check(self, values: Mapping[str, Any]) -> str:
        """The same for values given by name in a dict, as in a dispatch by the job's name."""
        try:
            return self.dump(self.model.model_validate(dict(values)))
        except ValidationError as error:
            raise _payload_error(error) from None

    def load(self, text: str) -> M:
        """The instance that the text holds."""
        return _read(text, self.model.model_validate_json, self.model.model_validate)


def _surrogate(values: Mapping[str, Any]) -> PayloadError:
    """pydantic reads a key with a lone surrogate and cannot write it: `encode` says where it is."""
    try:
        encode(values)
    except PayloadError as error:
        return error
    return PayloadError("$", "holds a lone surrogate, which is no Unicode text")


def is_model(kind: object) -> TypeGuard[type[BaseModel]]:
    """Whether a type is one that `model_payload` takes."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def model_payload(model: type[M]) -> ModelPayload[M]:
    """The payload of a job whose data is an instance of `model`."""
    return ModelPayload(model)


def signature_model(fn: Callable[..., Any], skip_first: bool = True) -> PayloadModel | None:
    """The payload of a function, from its annotated parameters; `None` if it takes none.

    `skip_first` leaves out the first one, the context. A parameter without annotation takes any
    JSON. Raises `InvalidSetting` for `*args`, `**kwargs`, positional-only parameters, and for
    annotations that cannot be checked.
    """
    signature = inspect.signature(fn)
    parameters = list(signature.parameters.values())[1 if skip_first else 0 :]
    if not parameters:
        return None
    hints = _hints(fn)
    fields = {p.name: _field(fn, p, hints) for p in parameters}
    return PayloadModel(signature.replace(parameters=parameters), _adapter(fn, fields))


def _field(fn: Callable[..., Any], parameter: inspect.Parameter, hints: dict[str, Any]) -> Any:
    if parameter.kind not in _NAMED:
        raise InvalidSetting(
            f"{_name(fn)}: parameter {parameter} cannot be filled from a payload: "
            "declare each one by name, without *args, **kwargs or '/'"
        )
    hint = hints.get(parameter.name, Any)
    return hint if parameter.default is parameter.empty else NotRequired[hint]


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(fn, include_extras=True)
    except (NameError, TypeError) as error:
        raise InvalidSetting(
            f"{_name(fn)}: an annotation cannot be resolved ({error}): "
            "import its names at the top of the module, not under TYPE_CHECKING"
        ) from error


def _adapter(fn: Callable[..., Any], fields: dict[str, Any]) -> TypeAdapter[dict[str, Any]]:
    # A typed dict, not a model: any parameter's name is allowed, and reading it gives the keyword
    # arguments themselves.
    make: Any = TypedDict
    shape = make(_name(fn), fields)
    shape.__pydantic_config__ = ConfigDict(extra="forbid")
    try:
        return TypeAdapter(shape)
    except PydanticUserError as error:
        raise InvalidSetting(
            f"{_name(fn)}: a parameter's type cannot be read from JSON ({error.message})"
        ) from error


def _name(fn: Callable[..., Any]) -> str:
    return str(getattr(fn, "__qualname__", repr(fn)))


T = TypeVar("T")


def _read(text: str, from_json: Callable[[str], T], from_values: Callable[[Any], T]) -> T:
    """Read the fast way, unless the text holds a number that a float would not give back."""
    try:
        if _MAY_HOLD_FRACTION.search(text):
            values = decode(text)
            if _holds_decimal(values):
                return from_values(values)
        return from_json(text)
    except ValidationError as error:
        raise _payload_error(error) from None


def _holds_decimal(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_decimal, value.values()))
    if isinstance(value, list):
        return any(map(_holds_decimal, value))
    return not isinstance(value, str | int | float) and value is not None


def _refuse_lost_numbers(value: object, path: tuple[str | int, ...]) -> None:
    """pydantic writes NaN and Infinity in an untyped field as null: that would be silent."""
    if isinstance(value, float) and not math.isfinite(value):
        raise PayloadError(path_text(path), f"{value!r} is not JSON: pass None, or text")
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_lost_numbers(item, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _refuse_lost_numbers(item, (*path, index))


def _payload_error(error: ValidationError) -> PayloadError:
    """The first thing that is wrong, its path, and how many more there are; never the value."""
    first, *others = error.errors(include_url=False, include_context=False, include_input=False)
    more = f" (and {len(others)} more)" if others else ""
    path = path_text(first["loc"])
    return PayloadError(path, first["msg"] + more)
