"""Client quotas: who may do how much (`table`), how much somebody does (`rates`), and what follows (`throttling`).

Nothing here sends or waits: `broker.connection` keeps a connection quiet for as long as it is told to (KIP-219).
"""
