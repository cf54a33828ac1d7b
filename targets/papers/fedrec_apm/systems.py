"""Systems of the paper, composed from its table ``systems.toml``."""

from fedrec_auditor.targets.federated.systems import composed

__getattr__ = composed(__name__)
