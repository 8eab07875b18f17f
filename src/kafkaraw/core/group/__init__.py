"""Membership in consumer groups, without I/O.

`classic` and `consumer` are the state machines of the two group protocols: events in, actions out, time passed in.
`member` has what both are composed of, `events` what they exchange with their driver. In a classic group the members
assign: `assignors/` says which member gets which partitions, `consumer_protocol` how members encode subscriptions and
assignments. Start at `member`.
"""
