"""Outputs of operations on meta tensors without asking their meta kernels again.

Many meta kernels are Python and cost a hundred microseconds; layers repeat, so their calls do. What an operation
returns depends on its schema and on its arguments' shapes, strides, types and values outside of tensors. `run` gives
the same outputs as func(*args, **kwargs), from memory where it can:

- operations that change their first argument in place and return it: a meta tensor has nothing to change;
- operations whose schema shares no memory between arguments and results, once they were run on such arguments.
"""

import torch

_PLAIN = (int, float, bool, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class OutputCache:
    def __init__(self) -> None:
        self._kinds: dict[object, str] = {}
        self._outputs: dict[tuple, tuple] = {}
        self.hits = 0

    def run(self, func, args: tuple, kwargs: dict):
        """func(*args, **kwargs)."""
        kind = self._kinds.get(func)
        if kind is None:
            kind = self._kinds[func] = _kind(func)
        if kind == "other":
            return func(*args, **kwargs)
        key = _key(func, args, kwargs)
        if key is None:
            return func(*args, **kwargs)
        known = self._outputs.get(key)
        if known is None:
            out = func(*args, **kwargs)
            self._outputs[key] = _describe(out, args) if kind == "fresh" else (None,)
            return out
        self.hits += 1
        if kind == "in place":
            return args[0]
        is_one, *made = known
        if is_one is None:
            return func(*args, **kwargs)
        tensors = [
            torch.empty_strided(size, stride, dtype=dtype, device="meta") if size is not None else None
            for size, stride, dtype in made
        ]
        return tensors[0] if is_one else tuple(tensors)


def _kind(func) -> str:
    schema = func._schema
    if torch.Tag.inplace_view in func.tags or not isinstance(func, torch._ops.OpOverload):
        return "other"
    writes = [a.alias_info is not None for a in schema.arguments]
    if not any(writes) and not any(r.alias_info is not None for r in schema.returns):
        return "fresh"
    in_place = schema.name.endswith("_") and writes[0] and not any(writes[1:]) and schema.arguments[0].is_write
    return "in place" if in_place and len(schema.returns) == 1 and "foreach" not in schema.name else "other"


def _key(func, args: tuple, kwargs: dict) -> tuple | None:
    """What the outputs depend on; None for arguments that are no meta tensors or plain values."""
    parts: list = [func]
    has_tensor = False
    for value in args if not kwargs else (*args, *kwargs, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            if not value.is_meta:
                return None
            has_tensor = True
            parts.append((value.shape, value.stride(), value.dtype))
        elif isinstance(value, _PLAIN):
            parts.append((type(value), value))
        elif isinstance(value, list | tuple):
            if not all(isinstance(one, _PLAIN) for one in value):
                if not all(isinstance(one, torch.Tensor) and one.is_meta for one in value):
                    return None
                has_tensor = True
                parts.append(tuple((one.shape, one.stride(), one.dtype) for one in value))
            else:
                parts.append(tuple((type(one), one) for one in value))
        else:
            return None
    return tuple(parts) if has_tensor else None


def _describe(out: object, args: tuple) -> tuple:
    """(whether it is a single tensor, (size, stride, dtype) of each); (None,) where it cannot be made again.

    `_unsafe_view` returns its argument's storage although its schema does not say so.
    """
    outputs = (out,) if isinstance(out, torch.Tensor) else out
    given = {value.untyped_storage()._cdata for value in args if isinstance(value, torch.Tensor)}
    if not isinstance(outputs, tuple):
        return (None,)
    made = []
    for one in outputs:
        if one is None:
            made.append((None, None, None))
            continue
        if not isinstance(one, torch.Tensor) or not one.is_meta or one.storage_offset():
            return (None,)
        if one.untyped_storage()._cdata in given:
            return (None,)
        copy = torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device="meta")
        if copy.untyped_storage().nbytes() != one.untyped_storage().nbytes():
            return (None,)
        made.append((one.shape, one.stride(), one.dtype))
    return (isinstance(out, torch.Tensor), *made)
