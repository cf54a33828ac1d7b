"""Ten lines: is what my devices upload as private as I say?

python examples/own_client.py
"""

import numpy as np

import fedrec_auditor


def client(history, model, rng):
    """One bit an item, flipped with probability 1/5: ln 4 = 1.386 for one interaction."""
    return (history.dense() > 0) ^ (rng.random(history.n_items) < 0.2)


if __name__ == "__main__":
    record = fedrec_auditor.audit_system(
        client,
        data=(np.random.default_rng(0).random((200, 30)) < 0.2).astype(float),
        claim=fedrec_auditor.Claim(epsilon=1, unit="interaction", horizon="round"),
        games=["local"],
        runs=4000,
    )
    for finding in record.findings:
        print(finding.verdict, finding.reason)
