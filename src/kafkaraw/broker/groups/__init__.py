"""Consumer groups in the broker: members, assignments and committed offsets.

`classic_group` and `consumer_group` hold the state of a group, `classic` and `consumer` implement the two group
protocols, `offsets` holds the committed offsets, `coordinator` combines them for one partition of `__consumer_offsets`,
and `node` hosts the coordinators of a node. None of them depends on a network. Start at `coordinator`.
Source: org.apache.kafka.coordinator.group; KIP-848.
"""
