"""Zhang et al.: attribute inference on FedRec, and protections of its uploads."""
