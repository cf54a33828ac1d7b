"""Systems of the federated-MF paper: parties with different items (vertical), with different users
(horizontal), with one user each (local), and central.
"""
