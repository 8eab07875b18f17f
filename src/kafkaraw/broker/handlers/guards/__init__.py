"""Who may ask what: one guard for each API, in front of its handler. The table is in `table`.

A guard takes what the client has no right to out of the request, lets the handler answer the rest, and puts the
refusals into its answer, as Kafka does it. So handlers know nothing of ACLs, and a broker without an authorizer does
not come this way. Guards look at the principal that the login gave, and at nothing that the request claims.
"""
