"""Code that several systems of the PrivRec paper share."""
