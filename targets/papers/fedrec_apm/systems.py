"""Systems of the FedRec paper, composed from the declarations in ``systems.toml``."""

from fedrec_auditor.targets.federated.systems import composed

__getattr__ = composed(__name__)
