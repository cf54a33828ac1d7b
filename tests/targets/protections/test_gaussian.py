"""FedRec-GN: no epsilon without a delta, the exact curve of an entry and of an upload."""

from __future__ import annotations

import math

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.divergences import gaussian_divergence
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.targets.protections.gaussian import GaussianProtection
from fedrec_auditor.targets.protections.laplace import LaplaceProtection

SCOPE = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)


def test_no_epsilon_is_promised_and_none_holds_without_a_delta() -> None:
    (promise,) = GaussianProtection().promises(("user", "item"))
    assert promise.epsilon == GaussianProtection().spent({"item": 3}) == math.inf
    assert exact_lower_bound(GaussianProtection().coordinate("item"), SCOPE).epsilon == math.inf


@pytest.mark.parametrize("entries", [1, 9, 400])
def test_an_upload_of_n_entries_has_the_curve_of_opposite_corners(entries: int) -> None:
    protection = GaussianProtection(sigma=2.0, clip=0.5)
    law = protection.upload({"user": 1, "item": entries - 1})
    bound = exact_lower_bound(law, SCOPE, 1e-5).epsilon
    mu = math.sqrt(entries) / 2.0
    assert gaussian_divergence(mu, bound) == pytest.approx(1e-5, rel=1e-6)


def test_it_disturbs_as_much_as_the_laplace_noise_beside_it() -> None:
    assert GaussianProtection().sigma == pytest.approx(
        math.sqrt(2) * LaplaceProtection().noise("item").scale, rel=0.02
    )


def test_noise_that_cannot_be_accounted_is_refused() -> None:
    with pytest.raises(InputError, match="sigma"):
        GaussianProtection(sigma=1e-200)
