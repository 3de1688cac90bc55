"""Canonical JSON (RFC 8785) and the ids made from it.

Only strings, integers, booleans, null, lists and objects are accepted. Floats are refused: fractions in identities
are decimal strings, so that one value has one spelling on every machine.
"""

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

MAX_EXACT_INTEGER = 2**53 - 1  # RFC 8785 numbers are IEEE doubles


def _check(value: object, path: str) -> None:
    if value is None or isinstance(value, bool | str):
        return
    if isinstance(value, int):
        if abs(value) > MAX_EXACT_INTEGER:
            raise ValueError(f"{path}: integer {value} is not exact as an IEEE double; write it as a string")
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{path}: object key {key!r} is not a string")
            _check(item, f"{path}.{key}")
        return
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, f"{path}[{index}]")
        return
    raise ValueError(f"{path}: {type(value).__name__} has no canonical form; use a decimal string for fractions")


def _ordered(value: object) -> object:
    if isinstance(value, Mapping):
        # RFC 8785 3.2.3 orders keys by UTF-16 code units, which differs from code points above U+FFFF.
        return {k: _ordered(value[k]) for k in sorted(value, key=lambda k: k.encode("utf-16-be", "surrogatepass"))}
    if isinstance(value, list | tuple):
        return [_ordered(item) for item in value]
    return value


def canonical_json(value: object) -> bytes:
    """RFC 8785 bytes of `value`. Raises ValueError for floats, inexact integers and foreign types."""
    _check(value, "$")
    return json.dumps(_ordered(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def short_id(value: object) -> str:
    """First 16 hex digits of the SHA-256 of the canonical JSON: 64 bits, enough for any ledger a person will read."""
    return sha256_hex(canonical_json(value))[:16]


def decimal_string(value: str | int | float | Decimal) -> str:
    """One spelling per fraction: '0.60' and 0.6 both give '0.6'. Raises ValueError for what is no finite number."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise ValueError(f"{value!r} is not a decimal number") from None
    if not number.is_finite():
        raise ValueError(f"{value!r} is not a finite decimal number")
    text = format(number.normalize(), "f")
    return "0" if text == "-0" else text
