"""Groups of consumers in the broker: members, what they read, and the positions that they have committed.

`classic_group` and `consumer_group` say what a group is, `classic` and `consumer` decide about members by the two
protocols, `offsets` keeps positions, `coordinator` puts them together for one partition of `__consumer_offsets`, and
`node` hosts the coordinators of a node. None of them knows of a network. Start at `coordinator`.
Source: org.apache.kafka.coordinator.group; KIP-848.
"""
