"""Code that several systems of the FMF-LDP paper share."""
