"""The systems of the paper, composed as its table ``systems.toml`` says."""

from fedrec_auditor.targets.systems.federated import composed

__getattr__ = composed(__name__)
