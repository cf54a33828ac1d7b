"""Code that several systems of the DPLCF paper share."""
