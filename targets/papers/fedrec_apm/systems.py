"""Systems of the FedRec paper: classes built from the declarations in ``systems.toml``."""

from fedrec_auditor.targets.federated.systems import make_class_loader

__getattr__ = make_class_loader(__name__)
