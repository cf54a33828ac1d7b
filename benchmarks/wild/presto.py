"""ornl-presto 0.1.29: mechanisms that it recommends among."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import at_once, exact, load, one_by_one
from benchmarks.wild.finding import Finding
from fedrec_auditor.accountants.losses.gaussian import gaussian_epsilon
from fedrec_auditor.targets.mechanisms.gaussian import Gaussian

EPSILON, DELTA, LARGEST = 1.0, 1e-5, 3
SIGMA = math.sqrt(math.log(1.25 / DELTA)) / EPSILON
"""What ``applyDPGaussian`` draws with at sensitivity 1; at s it is sqrt(s) times this."""
SENSITIVITY = 100.0


MECHANISMS = load("ornl_presto.privacy_mechanisms", "ornl_presto")


def _seed(number: int) -> None:
    import torch

    torch.manual_seed(number)


@at_once()
def gaussian(x: float, size: int) -> NDArray[np.float64]:
    data = np.full(size, float(x))
    return np.asarray(MECHANISMS.applyDPGaussian(data, SENSITIVITY, DELTA, EPSILON))


@at_once()
def laplace(x: float, size: int) -> NDArray[np.float64]:
    return np.asarray(MECHANISMS.applyDPLaplace(np.full(size, float(x)), 1.0, EPSILON))


@at_once()
def exponential(x: float, size: int) -> NDArray[np.float64]:
    return np.asarray(MECHANISMS.applyDPExponential(np.full(size, float(x)), 1.0, EPSILON))


@at_once(_seed)
def response(x: int, size: int) -> NDArray[np.int64]:
    """The users' values are x and, of one that is not looked at, the largest."""
    data = np.append(np.full(size, x), LARGEST)
    return np.asarray(MECHANISMS.hadamard_response(data, EPSILON).numpy())[:-1]


@one_by_one()
def threshold(x: float) -> list[float]:
    return list(MECHANISMS.applySVTAboveThreshold_full([0.0, float(x)], EPSILON))


@one_by_one(_seed)
def mean_sketch(x: float) -> float:
    import torch

    return float(MECHANISMS.count_mean_sketch(torch.tensor([0.0, float(x)]), EPSILON)[0])


def response_distribution(x: int, k: int, epsilon: float) -> exact.Distribution:
    kept = math.exp(epsilon) / (math.exp(epsilon) + 1.0)
    return exact.mixture([(kept, {x: 1.0}), (1.0 - kept, exact.uniform(range(k)))])


def findings() -> tuple[Finding, ...]:
    def finding(call: Any, name: str, **fields: Any) -> Finding:
        given: dict[str, Any] = {"epsilon": EPSILON, "inputs": (0.0, 1.0)}
        return Finding(library="ornl-presto", name=name, call=call, **(given | fields))

    gaussians = (
        "docstring: `sensitivity` of the query, `delta` the target of (epsilon, delta)-DP, "
        "`epsilon` the privacy parameter; two values that are the sensitivity apart"
    )
    wrong_sigma = (
        "sigma is sqrt(s ln(1.25 / delta)) / epsilon: the sensitivity has slipped under the root, "
        "and the factor 2 is missing"
    )
    records = "docstring: `epsilon` is the privacy parameter of the release; one record replaced"
    return (
        finding(
            Gaussian(sigma=SIGMA, low=0.0, high=1.0),
            "applyDPGaussian",
            delta=DELTA,
            inputs=None,
            again=f"auditor verify gaussian --set sigma={SIGMA!r} --set low=0 --set high=1 "
            f"--epsilon {EPSILON:g} --delta {DELTA:g}",
            exact=gaussian_epsilon(DELTA, 1.0 / SIGMA),
            setting=f"as by default; sigma {SIGMA:.4f}",
            claim=gaussians,
            remark=wrong_sigma,
        ),
        finding(
            gaussian,
            "applyDPGaussian",
            delta=DELTA,
            inputs=(0.0, SENSITIVITY),
            exact=gaussian_epsilon(DELTA, math.sqrt(SENSITIVITY) / SIGMA),
            setting=f"sensitivity {SENSITIVITY:g}",
            samples=100_000,
            claim=gaussians,
            remark=wrong_sigma,
        ),
        finding(
            response,
            "hadamard_response",
            inputs=(0, 1),
            exact=exact.epsilon(
                response_distribution(x, LARGEST + 1, EPSILON) for x in range(LARGEST + 1)
            ),
            setting=f"4 values, of which the data hold the largest, {LARGEST}",
            samples=100_000,
            claim="docstring: local DP by randomized response, `epsilon` the privacy parameter; "
            "one value replaced, the largest in the data the same",
            remark="the value is kept with probability e^epsilon / (e^epsilon + 1), whatever their "
            "number d, and else drawn among all d, itself included: ln(1 + d e^epsilon). There is "
            "no Hadamard code in it, and d is the largest value in the data, plus 1",
        ),
        finding(
            threshold,
            "applySVTAboveThreshold_full",
            exact=math.inf,
            setting="records 0 and x",
            claim=records,
            remark="what is above the noisy threshold is returned as it is, the rest is drawn from "
            "the data: every output is a record. Records 0 and 0 give nothing else, 0 and 1 give "
            "a 1",
        ),
        finding(
            mean_sketch,
            "count_mean_sketch",
            exact=math.inf,
            setting="records 0 and x",
            claim=records,
            remark="the histogram spans the data's own smallest to largest value, unnoised: if all "
            "records are equal, the mean is theirs exactly; else it is spread by the noise",
        ),
        finding(laplace, "applyDPLaplace", exact=EPSILON, claim=records),
        finding(exponential, "applyDPExponential", exact=EPSILON, claim=records),
    )
