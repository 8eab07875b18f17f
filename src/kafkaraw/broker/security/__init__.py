"""Authentication of clients: TLS, certificates, SASL, credentials. Authorization is in `acl`.

Start at `listener_security.py`.
"""
