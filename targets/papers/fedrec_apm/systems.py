"""Systems of the FedRec paper: classes built from the declarations in ``systems.toml``.

The paper is Zhang, Yuan and Yin, Comprehensive Privacy Analysis on Federated Recommender System
against Attribute Inference Attacks, arXiv:2205.11857, 2022.
"""

from fedrec_auditor.targets.federated.systems import make_class_loader

__getattr__ = make_class_loader(__name__)
