"""The tape of a dry run: every storage's birth and death on the simulated device, as the allocator's events.

The simulated device is torch's `meta` device: tensors have shapes, dtypes, strides and storages that are born and die,
but no memory. Host tensors stay ordinary CPU tensors, so the two are never confused.
"""

import contextlib
import weakref
from collections.abc import Callable, Iterator

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .shapes import OutputCache
from .template import Event, Template

_current_node = torch._C._current_autograd_node
_ADD, _SCATTER_ADD = torch.ops.aten.add.Tensor, torch.ops.aten.scatter_add.default


class Tape(TorchDispatchMode):
    """Records events while it is entered. `scratch(tape, func, args, out)`, if given, is asked after every operation
    and may add what its kernel allocates below the dispatcher.

    `labels` has what made each allocation: the operation, by key; those of a copy stand in its template.
    """

    def __init__(
        self, scratch: Callable[["Tape", object, tuple, object], None] | None = None, *, device_type: str = "meta"
    ):
        super().__init__()
        self._device_type = device_type  # cpu: a real run, to compare with
        self.events: list[Event] = []
        self.labels: dict[int, str] = {}
        self.operations = 0
        self.in_backward = False
        self.place: tuple = ()  # pool and stream of new allocations; () is the default of both
        self.stage: str | None = None
        self._scratch = scratch
        self._outputs = OutputCache()
        self._keys: dict[int, list[int]] = {}  # storage -> its key, in a cell that may be renamed
        self._watch: dict[int, weakref.ref] = {}
        self._count = 0
        self._on_host = False
        self._twin: tuple[int, list[int]] | None = None

    @property
    def is_backward_thread(self) -> bool:
        """Whether a GPU run would be in autograd's own thread now."""
        return self.in_backward

    @property
    def node(self) -> object:
        """The autograd node that runs now, or None."""
        return _current_node()

    @contextlib.contextmanager
    def backward(self) -> Iterator[None]:
        """Everything inside happens in autograd's thread."""
        before, self.in_backward = self.in_backward, True
        try:
            yield
        finally:
            self.in_backward = before

    @contextlib.contextmanager
    def on_host(self) -> Iterator[None]:
        """Storages that are born inside lie in host memory: they are not recorded, now or later."""
        before, self._on_host = self._on_host, True
        try:
            yield
        finally:
            self._on_host = before

    @contextlib.contextmanager
    def at(self, *place: object) -> Iterator[None]:
        """Allocations inside come from this pool and stream."""
        before, self.place = self.place, place
        try:
            yield
        finally:
            self.place = before

    def mark(self, *event: object) -> None:
        """An event that is no allocation: stage, empty_cache, release_pool."""
        if event[0] == "stage":
            self.stage = event[1]
        self.events.append(event)

    def alloc(self, nbytes: int, label: str) -> int:
        """An allocation that no storage stands for; its key."""
        self._count += 1
        self.labels[self._count] = label
        self.events.append(("alloc", self._count, nbytes, *self.place))
        return self._count

    def copy(self, template: Template) -> int:
        """All events of the template once more, in the present pool and stream; the first of their keys."""
        first = self._count + 1
        self._count += len(template.labels)
        self.labels.update((first + key, template.labels[key]) for key in template.left)
        self.events.append(("copy", template, first, *self.place))
        return first

    def key_of(self, tensor: torch.Tensor) -> int:
        """The key of a tensor's storage."""
        return self._keys[tensor.untyped_storage()._cdata][0]

    def adopt(self, key: int, shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """A device tensor whose storage stands for the live allocation `key`."""
        with torch.utils._python_dispatch._disable_current_modes():
            tensor = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        self._register(tensor.untyped_storage(), [key])
        return tensor

    def free(self, key: int) -> None:
        self.events.append(("free", key))

    def temporary(self, label: str, *sizes: int) -> None:
        """Allocations that one kernel makes and frees again; empty ones are left out."""
        keys = [self.alloc(nbytes, label) for nbytes in sizes if nbytes]
        for key in keys:
            self.free(key)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = self._outputs.run(func, args, kwargs or {})
        self.operations += 1
        self._twin = None
        if isinstance(out, torch.Tensor):
            self.see(out, func._schema.name)
        elif isinstance(out, tuple | list):
            for one in out:
                if isinstance(one, torch.Tensor):
                    self.see(one, func._schema.name)
        if self.in_backward and (func is _ADD or func is _SCATTER_ADD):
            self._note_twin(func, args, out)
        if self._scratch is not None:
            self._scratch(self, func, args, out)
        return out

    def _note_twin(self, func: object, args: tuple, out: torch.Tensor) -> None:
        """Autograd adds in place where it holds the last reference, but not while a dispatch mode is entered.

        So the sum of gradients that meet, and the scatter of gather's backward, get new storages here. If the old one
        dies at once, before the next operation, the run on a GPU has kept it: `_gone` then renames the new one.
        """
        if func is _ADD and _current_node() is not None:
            return  # an addition of some node's formula, out of place everywhere
        old = args[0].untyped_storage()
        if old.nbytes() == out.untyped_storage().nbytes() and old._cdata in self._keys:
            self._twin = (self._keys[old._cdata][0], self._keys[out.untyped_storage()._cdata])

    def see(self, tensor: torch.Tensor, label: str) -> None:
        """Record the birth of a tensor's storage, if it is new and on the device."""
        if tensor.device.type != self._device_type:
            return
        storage = tensor.untyped_storage()
        name = storage._cdata
        if name in self._keys:
            return
        nbytes = storage.nbytes()
        if nbytes == 0:
            return
        self._register(storage, [0 if self._on_host else self.alloc(nbytes, label)])

    def _register(self, storage: torch.UntypedStorage, cell: list[int]) -> None:
        """Watch for the death of a storage; the cell holds its key, 0 for host memory."""
        name = storage._cdata
        self._keys[name] = cell

        def gone(_: object, name: int = name, cell: list[int] = cell) -> None:
            del self._keys[name], self._watch[name]
            key = cell[0]
            if self._twin is not None and self._twin[0] == key and self.events[-1][:2] == ("alloc", self._twin[1][0]):
                del self.events[-1]
                self._twin[1][0], self._twin = key, None
            elif key:
                self.events.append(("free", key))

        self._watch[name] = weakref.ref(storage, gone)
