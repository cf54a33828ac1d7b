"""NN-SELF: second-order federated meta-learning, support and query set apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from numpy.random import Generator
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Kind
from fedrec_auditor.targets.papers.privrec.systems.parts.meta_learned import MetaLearned
from fedrec_auditor.targets.papers.privrec.systems.parts.network import Averaged, Network
from fedrec_auditor.targets.transcript import Broadcast, Uploads

if TYPE_CHECKING:
    from fedrec_auditor.targets.papers.privrec.systems.parts.device import Devices
    from fedrec_auditor.targets.papers.privrec.systems.parts.loss import Weights


@dataclass(frozen=True, kw_only=True)
class NnSelf(MetaLearned):
    """MAML (equations 3 to 5): steps on a support set, the gradient of a query set's loss through
    them.

    A device returns minus that gradient, the second order included, and the server adds
    ``server_rate`` (alpha2) times the sum, as equation 5 has it. ``local_epochs`` are the steps of
    full gradients on the support set (equation 4 has one and allows for more; one learns next to
    nothing here). A new device takes them on all it holds (section 4.1: its training set is the
    support set). Features, ``item_ids`` and network are PrivRec's; ``batch`` only bounds what is
    computed at once.
    """

    server_rate: Annotated[float, "alpha2, size of the server's step along the sum"] = 0.1
    item_ids: Annotated[bool, "gives every item an embedding of its own"] = False
    averaged_genres: Averaged = False

    kind = Kind.GRADIENT

    @property
    def step_size(self) -> float:
        """One: minus the gradient is sent, on no scale of its own."""
        return 1.0

    @property
    def network(self) -> Network:
        """Features of users and items."""
        return Network(
            embedding=self.embedding,
            width=self.width,
            ids=self.item_ids,
            side=True,
            averaged=self.averaged_genres,
        )

    def learn(self, devices: Devices) -> Weights:
        """The change that each device returns: minus its meta-gradient."""
        from fedrec_auditor.targets.papers.privrec.systems.parts.device import maml

        return maml(devices, self.local)

    def personalize(self, devices: Devices) -> Weights:
        """Equation 4, in full gradients."""
        return replace(devices, batch=max(1, devices.labels.shape[1])).train(self.local)

    def step(self, model: Broadcast, uploads: Uploads, rng: Generator) -> dict[str, NDArray[Any]]:
        """Equation 5: theta0 + alpha2 times the sum."""
        return self.move(model, uploads, self.server_rate)
