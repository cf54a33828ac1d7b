"""UC-FedRec (WSDM 2024), as released: its privacy claims.

Filters hide the attributes that a user does not consent to reveal.
"""
