"""A client that trains a torch module on the device, and sends its parameters."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.wrapped.client import History

if TYPE_CHECKING:
    import torch

# Arrays by the names of a module's parameters and buffers.
ArraysByName = dict[str, NDArray[Any]]
_STEP = 1 / 2048  # seconds


class TorchClient:
    """Client that trains a torch module by local steps, for ``audit_system`` or ``wrap_system``.

    The client sends all parameters and buffers of floats, except those that are ``private``. The
    attribute ``initial`` is the first model of the training.

    Parameters
    ----------
    model : a module, or a function that creates a module for a number of items. With a function,
        audits of small catalogues are faster.
    loss : ``loss(module, history, rng)``, which returns a scalar tensor; called once per local
        step.
    optimizer : a function that creates an optimizer from parameters, such as ``lambda parameters:
        torch.optim.SGD(parameters, lr=0.1)``.
    local_steps : number of steps per round, at least 1.
    private : beginnings of the names of parameters and buffers that stay on the device.
    protect : ``protect(changes, rng)``, which clips the changes of the shared parameters, by name,
        and adds noise; None if the client protects nothing.

    Raises InputError for an invalid ``model`` or ``local_steps``.
    """

    def __init__(
        self,
        model: torch.nn.Module | Callable[[int], torch.nn.Module],
        loss: Callable[..., torch.Tensor],
        optimizer: Callable[..., torch.optim.Optimizer],
        local_steps: int = 1,
        *,
        private: Collection[str] = (),
        protect: Callable[[ArraysByName, np.random.Generator], Mapping[str, Any]] | None = None,
    ) -> None:
        from torch import nn

        if not (isinstance(model, nn.Module) or callable(model)):
            raise InputError(
                f"Expected a torch module, or a function that creates one for a number of items, "
                f"as model, got {model!r:.60}. Give an instance of a subclass of torch.nn.Module."
            )
        if local_steps < 1:
            raise InputError(f"Expected local_steps >= 1, got {local_steps}. Give 1 or more.")
        self._model, self._loss, self._optimizer = model, loss, optimizer
        self._steps, self._private, self._protect = local_steps, tuple(private), protect
        self.__wrapped__ = loss  # so that errors name the place of the loss function
        self._made: dict[int, torch.nn.Module] = {}

    @property
    def upload_seconds(self) -> float:
        """Estimated seconds to compute one message; proportional to the local steps plus one."""
        return (1 + self._steps) * _STEP

    @property
    def initial(self) -> ArraysByName | Callable[[int], ArraysByName]:
        """Initial model: the shared parameters of the untrained module, by name.

        If ``model`` is a function, the result is a function that returns them for a number of
        items.
        """
        from torch import nn

        if isinstance(self._model, nn.Module):
            return _to_arrays(self._get_shared(self._model))
        return self.init_params

    def __call__(
        self, history: History, model: ArraysByName, rng: np.random.Generator, state: dict[str, Any]
    ) -> ArraysByName:
        """Trains by local steps from ``model``, and returns the shared parameters by name.

        ``state`` is the device's dictionary, which stores the private parameters from round to
        round. A device without data takes no step.
        """
        import torch

        module = self._copy_module(history.n_items)
        module.train()
        with torch.no_grad():
            for name, tensor in self._get_tensors(module):
                known = state.get(name) if self._is_private(name) else model[name]
                if known is not None:
                    tensor.copy_(torch.from_numpy(np.array(known)))
        steps = self._steps if len(history) else 0
        optimizer = self._optimizer(module.parameters())
        for _ in range(steps):
            optimizer.zero_grad()
            value: Any = self._loss(module, history, rng)
            value.backward()
            optimizer.step()
        state.update({n: _to_array(t) for n, t in self._get_tensors(module) if self._is_private(n)})
        after = _to_arrays(self._get_shared(module))
        if self._protect is None:
            return after
        changes = {name: array - model[name] for name, array in after.items()}
        sent = self._protect(changes, rng)
        return {name: model[name] + np.asarray(sent[name]) for name in after}

    def init_params(self, n_items: int) -> ArraysByName:
        """Returns the shared parameters of an untrained module for ``n_items`` items, by name."""
        return _to_arrays(self._get_shared(self._copy_module(n_items)))

    def _copy_module(self, n_items: int) -> torch.nn.Module:
        """Returns a copy of the untrained module for ``n_items`` items."""
        from torch import nn, random

        if isinstance(self._model, nn.Module):
            return copy.deepcopy(self._model)
        if n_items not in self._made:
            with random.fork_rng(devices=()):
                random.manual_seed(0)
                self._made[n_items] = self._model(n_items)
        return copy.deepcopy(self._made[n_items])

    def _is_private(self, name: str) -> bool:
        return name.startswith(self._private) if self._private else False

    def _get_tensors(self, module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
        for name, tensor in module.state_dict().items():
            if tensor.is_floating_point():
                yield name, tensor

    def _get_shared(self, module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
        return ((n, t) for n, t in self._get_tensors(module) if not self._is_private(n))


# The name of ``TorchClient`` in the public interface of the package.
wrap_torch = TorchClient


def _to_array(tensor: torch.Tensor) -> NDArray[Any]:
    return np.array(tensor.detach().cpu().numpy())


def _to_arrays(tensors: Iterator[tuple[str, torch.Tensor]]) -> ArraysByName:
    return {name: _to_array(tensor) for name, tensor in tensors}
