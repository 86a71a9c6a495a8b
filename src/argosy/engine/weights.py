"""A module's parameters laid over one flat vector, so that an exchange needs no gathering."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from argosy.engine import models

if TYPE_CHECKING:
    from torch import Tensor, nn


class Weights:
    """`vector` holds all parameters in the table's order; the module's are views into it.

    On the CPU `read()` is that memory itself: what changes it changes the model. On a GPU it is a
    copy, and `write()` carries it back.
    """

    def __init__(self, module: "nn.Module", device: torch.device) -> None:
        self.module = module.to(device)
        names = [name for name, _ in models.table(module)]
        parameters = dict(module.named_parameters())
        self.parameters = [parameters[name] for name in names]
        sizes = [parameter.numel() for parameter in self.parameters]
        self.vector = torch.empty(sum(sizes), dtype=torch.float32, device=device)
        at = 0
        for parameter, size in zip(self.parameters, sizes, strict=True):
            piece = self.vector[at : at + size].view(parameter.shape)
            piece.copy_(parameter.detach())
            parameter.data = piece
            at += size
        self._host = self.vector if device.type == "cpu" else torch.empty(sum(sizes))

    @property
    def device(self) -> torch.device:
        return self.vector.device

    def read(self) -> np.ndarray:
        """The parameters as a NumPy vector that may be changed in place, then `write` it."""
        if self._host is not self.vector:
            self._host.copy_(self.vector)
        return self._host.numpy()

    def write(self) -> None:
        """Make the vector that `read` handed out the model's own."""
        if self._host is not self.vector:
            self.vector.copy_(self._host)

    def set(self, values: np.ndarray) -> None:
        self.vector.copy_(torch.from_numpy(values))

    def intact(self) -> bool:
        """Whether the module's parameters are still views of the vector, and on its device."""
        at = self.vector.data_ptr()
        for parameter in self.parameters:
            if parameter.data_ptr() != at:
                return False
            at += parameter.numel() * self.vector.element_size()
        return True

    def split(self, flat: "Tensor") -> list["Tensor"]:
        """A vector in the table's order, cut into the parameters' shapes."""
        pieces = torch.split(flat, [parameter.numel() for parameter in self.parameters])
        return [
            piece.view(parameter.shape)
            for piece, parameter in zip(pieces, self.parameters, strict=True)
        ]
