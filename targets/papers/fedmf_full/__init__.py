"""Privacy claims of FedMF (Chai et al., IEEE Intelligent Systems 2021), for its released code.

Clients encrypt their gradients homomorphically. The system is a control for the audit: its claim
about the server holds.
"""
