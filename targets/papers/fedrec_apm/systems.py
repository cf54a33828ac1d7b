"""Systems of the FedRec paper: classes built from the declarations in ``systems.toml``."""

from fedrec_auditor.targets.federated.systems import composed

__getattr__ = composed(__name__)
