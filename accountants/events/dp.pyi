from dp_accounting import ComposedDpEvent as ComposedDpEvent
from dp_accounting import DpEvent as DpEvent
from dp_accounting import GaussianDpEvent as GaussianDpEvent
from dp_accounting import LaplaceDpEvent as LaplaceDpEvent
from dp_accounting import MixtureOfGaussiansDpEvent as MixtureOfGaussiansDpEvent
from dp_accounting import NonPrivateDpEvent as NonPrivateDpEvent
from dp_accounting import NoOpDpEvent as NoOpDpEvent
from dp_accounting import PoissonSampledDpEvent as PoissonSampledDpEvent
from dp_accounting import RandomizedResponseDpEvent as RandomizedResponseDpEvent
from dp_accounting import SampledWithoutReplacementDpEvent as SampledWithoutReplacementDpEvent
from dp_accounting import SelfComposedDpEvent as SelfComposedDpEvent
from dp_accounting import ZCDpEvent as ZCDpEvent
from dp_accounting import get_epsilon_gaussian as get_epsilon_gaussian

from fedrec_auditor.accountants.events.leaves import BitFlipDpEvent as BitFlipDpEvent
from fedrec_auditor.accountants.events.leaves import PureDpEvent as PureDpEvent
from fedrec_auditor.accountants.events.leaves import (
    ReplacedSamplingDpEvent as ReplacedSamplingDpEvent,
)
from fedrec_auditor.accountants.events.leaves import (
    RevealedSamplingDpEvent as RevealedSamplingDpEvent,
)
from fedrec_auditor.accountants.events.leaves import ShuffledDpEvent as ShuffledDpEvent
