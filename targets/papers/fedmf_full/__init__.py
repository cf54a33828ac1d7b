"""FedMF (Chai et al., IEEE Intelligent Systems 2021), as released: its privacy claims.

Clients encrypt their gradients homomorphically. The system is a control, whose claim about the
server holds.
"""
