"""The systems of the paper, composed as its table ``systems.toml`` says."""

from fedrec_auditor.targets.federated.systems import composed

__getattr__ = composed(__name__)
