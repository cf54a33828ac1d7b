"""Zhang et al.: attribute inference on FedRec, and what protects its uploads."""
