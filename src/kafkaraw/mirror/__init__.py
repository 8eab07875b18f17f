"""Copies of topics in other clusters: copied batch by batch, with offsets that translate, and compared.

`flow.Flow` copies the topics of one cluster to another one, from the settings in `interfaces`; `running.MirrorRun` does
so with everything beside it. `verification.verify_topic` compares a topic with its copy.
"""
