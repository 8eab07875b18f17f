"""What a cluster does at the moment: snapshots of it, rates between them, lag of groups in records and in seconds.

    async with AsyncAdmin(bootstrap_servers="localhost:9092") as admin:
        monitor = Monitor(admin)
        await monitor.refresh()
        await asyncio.sleep(2)
        status = await monitor.refresh()
        print([(topic.name, topic.records_per_s) for topic in status.topics])

`collector.py` asks the cluster and returns a `Snapshot`; it is the only part that sends requests. `timeline.py` and
`history.py` keep what earlier snapshots said, without I/O. `status.py` has the numbers that are shown, `problems.py`
what is wrong, in sentences. Nothing here draws, commits or changes the cluster. Start at `monitor.py`; `kafkaraw top`
shows it. `partitions_of_group` and `LagHistory` serve programs that look at one group.
"""

from kafkaraw.monitoring.collector import Collector as Collector
from kafkaraw.monitoring.lag_history import LagHistory as LagHistory
from kafkaraw.monitoring.lag_history import LagSample as LagSample
from kafkaraw.monitoring.monitor import Monitor as Monitor
from kafkaraw.monitoring.problems import Problem as Problem
from kafkaraw.monitoring.problems import Severity as Severity
from kafkaraw.monitoring.problems import problems_of as problems_of
from kafkaraw.monitoring.rates import byte_rates as byte_rates
from kafkaraw.monitoring.rates import commit_rates as commit_rates
from kafkaraw.monitoring.rates import record_rates as record_rates
from kafkaraw.monitoring.snapshot import ALL_PARTS as ALL_PARTS
from kafkaraw.monitoring.snapshot import GroupSnapshot as GroupSnapshot
from kafkaraw.monitoring.snapshot import Missing as Missing
from kafkaraw.monitoring.snapshot import Part as Part
from kafkaraw.monitoring.snapshot import Snapshot as Snapshot
from kafkaraw.monitoring.status import BrokerStatus as BrokerStatus
from kafkaraw.monitoring.status import ClusterStatus as ClusterStatus
from kafkaraw.monitoring.status import GroupPartitionStatus as GroupPartitionStatus
from kafkaraw.monitoring.status import GroupStatus as GroupStatus
from kafkaraw.monitoring.status import MemberStatus as MemberStatus
from kafkaraw.monitoring.status import PartitionStatus as PartitionStatus
from kafkaraw.monitoring.status import TimeLag as TimeLag
from kafkaraw.monitoring.status import TopicStatus as TopicStatus
from kafkaraw.monitoring.status import members_of_group as members_of_group
from kafkaraw.monitoring.status import partitions_of_group as partitions_of_group
from kafkaraw.monitoring.timeline import Timeline as Timeline
