"""The most powerful distinguisher of two worlds where the randomizer's law is public."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import AttackFamily, Background, Scores
from fedrec_auditor.targets.transcript import View


@dataclass(frozen=True)
class LikelihoodRatio:
    """No test of two worlds beats the likelihood ratio (Neyman and Pearson 1933).

    Reads the component "symbol", one discrete observation a client, and scores it with
    log P(symbol | first world) - log P(symbol | second world).
    """

    family = AttackFamily.DISTINGUISHER
    vantage = Vantage.SERVER
    reference = "likelihood-ratio test, Neyman and Pearson 1933"

    def applies(self, view: View) -> bool:
        """Whether there is a symbol to read and a public law to read it by."""
        return view.public.channel is not None and bool(view.component("symbol"))

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Scores:
        """Scores of all symbols, (n,); +inf or -inf where one world rules the symbol out."""
        channel, worlds = view.public.channel, background.worlds
        if channel is None or worlds is None:
            raise InputError(
                "Expected a public channel and two worlds, got none. Use a distinguisher that "
                "learns from samples instead."
            )
        uploads, component = view.component("symbol")[0]
        symbols = component.dense(np.arange(len(uploads.users)))
        first, second = (channel.log_prob(symbols, value) for value in worlds)
        ratio = np.zeros_like(first)  # a symbol impossible in both worlds tells nothing
        return Scores(values=np.subtract(first, second, where=first != second, out=ratio))
