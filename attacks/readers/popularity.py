"""Which items are popular, where nothing seen belongs to one user.

See ``item_steps.popularity``; of users it tells nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.parts.item_steps import item_table, last_model, popularity
from fedrec_auditor.attacks.parts.unlinked import pseudonymous
from fedrec_auditor.attacks.parts.uploads import names, takes_turns
from fedrec_auditor.attacks.readers.base import Evidence, MessageReader
from fedrec_auditor.attacks.readers.user_rows import UserRows
from fedrec_auditor.targets.transcript import View


class Popularity(MessageReader):
    """Items in order of how far all messages together move them; of users it tells nothing."""

    reference = "common direction of all steps, derived in attacks/parts/item_steps.py"

    wanted = "a model with a row an item"

    def reads(self, view: View) -> bool:
        """Whether there is one, and nothing that tells more."""
        more = names(view) or takes_turns(view) or UserRows().reads(view)
        sent = any(seen.uploads is not None for seen in view.rounds)
        pooled = sent if view.vantage is Vantage.SERVER else not pseudonymous(view)
        model = item_table(last_model(view), view.public.n_items)
        return model is not None and pooled and not more

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """The place of every item along the common direction, in standard deviations."""
        return Evidence(
            users=users,
            log_ratio=np.zeros((len(users), view.public.n_items)),
            items=popularity(view),
            activity=np.zeros(len(users)),
        )
