"""The page of faults that are injected: by the embedded broker, or by the tap of the page of the wire.

Start at `show`.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.providers import Faults
from kafkaraw.console.shown import visible
from kafkaraw.console.site import MissingError, Site, url
from kafkaraw.errors import UsageError

EXAMPLES: Final = (
    "Produce: answer NOT_LEADER_OR_FOLLOWER",
    "Produce topic=orders nth=3 times=1: close",
    "Fetch: delay 500ms",
    "any client=billing: limit 20kB/s",
    "Heartbeat every=10: swallow",
    "Metadata times=3: corrupt",
)
_FAULTS_MAX: Final = 100


async def show(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the faults that are switched on."""
    active = [(id(each), visible(str(each))) for each in _plan(site, cluster).active]
    return site.page(request, "faults.html", cluster, tab="faults", active=active, examples=EXAMPLES)


async def change(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Switch a fault on, or off."""
    from kafkaraw.inspect import add_rule

    fields = await site.form(request)
    plan = _plan(site, cluster)
    if "off" in fields:
        found = [each for each in plan.active if fields["off"] in (str(id(each)), "all")]
        with site.audit.change(request.state.user, cluster.name, "switch faults off", faults=list(map(str, found))):
            for each in found:
                plan.remove(each)
    else:
        rule = fields.get("rule", "").strip()
        if len(plan.active) >= _FAULTS_MAX:
            raise UsageError(f"{_FAULTS_MAX} faults are switched on already: switch some off first")
        with site.audit.change(request.state.user, cluster.name, "switch a fault on", rule=rule[:500]):
            add_rule(plan, rule)  # type: ignore[arg-type]  # the plan of a broker
    return site.changed(cluster, url("c", cluster.name, "faults"))


def _plan(site: Site, cluster: ClusterConnection) -> Faults:
    found = site.faults.get(cluster.name)
    if found is None:
        raise MissingError("faults are those of the embedded broker or of a tap: start one on the page Wire")
    return found
