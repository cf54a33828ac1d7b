"""Privacy claims of UC-FedRec (WSDM 2024), for its released code.

Filters hide the attributes that a user does not consent to reveal.
"""
