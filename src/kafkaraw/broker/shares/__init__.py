"""Share groups in the broker (KIP-932): the state of share partitions, and the coordinators that store it.

`state` has what is stored about a share partition, `coordinator` one partition of `__share_group_state`, and `node`
hosts the coordinators of a node and reaches those of others. Members of share groups are in `broker.groups`.
Start at `coordinator`.
Source: org.apache.kafka.coordinator.share; org.apache.kafka.server.share.persister.
"""
