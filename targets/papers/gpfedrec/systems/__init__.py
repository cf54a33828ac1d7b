"""The system of the released code."""
