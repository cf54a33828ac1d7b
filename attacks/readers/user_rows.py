"""Rows of users in a model that is handed out: what they predict of items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.parts.item_steps import item_table, last_model, user_table
from fedrec_auditor.attacks.parts.uploads import names
from fedrec_auditor.attacks.readers.base import Evidence, MessageReader
from fedrec_auditor.targets.transcript import View


class UserRows(MessageReader):
    """The prediction x_u . v_i: items that were trained on have larger ones than others.

    It ranks pairs and is no likelihood ratio: what is predicted without having been met is large,
    too. How popular items are is part of it.
    """

    reference = (
        "predictions of a model on its training data, as Yeom et al., Privacy Risk in Machine "
        "Learning, CSF 2018, threshold its loss"
    )

    wanted = "a model with a row a user"

    def reads(self, view: View) -> bool:
        """Whether there is one, with a row an item besides, and no message of a user."""
        table = item_table(last_model(view), view.public.n_items)
        users = None if table is None else user_table(last_model(view), table)
        models = view.vantage in (Vantage.PEERS, Vantage.RELEASE)
        complete = users is not None and len(users) == view.public.n_users
        return models and complete and not names(view)

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Predictions in standard deviations."""
        model = last_model(view)
        table = item_table(model, view.public.n_items)
        assert table is not None, "refused"
        rows = user_table(model, table)
        assert rows is not None, "refused"
        scores = rows[users] @ table.T
        scale = max(float(scores.std()), np.finfo(float).tiny)
        return Evidence(
            users=users,
            log_ratio=(scores - scores.mean()) / scale,
            items=np.zeros(view.public.n_items),
            activity=np.zeros(len(users)),
        )
