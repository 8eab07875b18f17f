"""Who a client is: TLS, certificates, logins, credentials. What it may do is in `acl`.

Start at `listener_security.py`.
"""
