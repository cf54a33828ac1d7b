"""Central matrix factorization by noisy stochastic gradient Langevin dynamics."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Literal

from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Clipping, Descent
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import Published
from fedrec_auditor.targets.papers.federated_mf.systems.parts.holding import Items
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise import NoiseOnBoth
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noisy_steps import NoisySteps
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import batch_size
from fedrec_auditor.targets.settings import Knob, Range


@dataclass(frozen=True, kw_only=True)
class DpSgld(NoisySteps):
    """DP-SGLD (Liu, Wang, Smola, RecSys 2015): noise for ``epsilon`` by advanced composition.

    Steps are Langevin's, and their noise is the larger of Langevin's and what privacy asks for. The
    paper says of this baseline that it bounds predictions' errors, and that its composition asks
    for more noise than the moments accountant; it prints no formula. Assumed, after Wang, Fienberg
    and Smola 2015, Algorithm 2: with K steps on batches of n' of n rows and Lipschitz constant L,
    the noise on the sum of a batch has variance

        128 K (n'/n)^2 L^2 ln(5 K n'/(2 delta)) ln(2/delta) / epsilon^2.

    L is the sensitivity under errors clipped to [-R, R] and embeddings of norm^2 <= R: the
    inequality of embedding clipping, without its sign. Per user, of ``trim`` ratings together.
    The prior is flat within the balls. The noise is some 30 times what the moments accountant asks
    for, so that without any amplification little more than the claim is owed.
    """

    parties: int = 1
    split: Literal["random", "category"] = "random"
    epsilon: Annotated[float, Range("[1e-9, 1e6]")] = 1.0
    learning_rate: float = 0.0001

    learning = MappingProxyType({"spread": 0.1, "rate": 0.1, "learning_rate": 0.02})
    holding = Items()
    exchange = Published()
    one_party = True
    privacy = Knob(budgets=("epsilon",), off=1e6)

    def noise(self, n_users: int, joint: bool = True) -> NoiseOnBoth:
        """On errors that are clipped, as embeddings are; in units of the Lipschitz constant L."""
        clipping = Clipping.of_errors(self.bound)
        drawn = batch_size(n_users, self.rate)
        logs = math.log(2.5 * self.steps * drawn / self.delta) * math.log(2.0 / self.delta)
        z = drawn / n_users * math.sqrt(128.0 * self.steps * logs) / self.epsilon
        sigma = z * clipping.sensitivity(self.trimmed or 1, joint)
        return NoiseOnBoth(z=z, sigma=sigma, clipping=clipping)

    def descent(self, n_users: int, joint: bool = True) -> Descent:
        """Steps with noise up to that of Langevin dynamics."""
        return replace(super().descent(n_users, joint), langevin=True)
