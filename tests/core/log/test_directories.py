"""Which log directories a broker may use, decided from their listings before any of them is changed."""

from __future__ import annotations

import pytest

from kafkaraw.core.log.directories import Listing, check_directories
from kafkaraw.core.log.metadata_files import MetaProperties, write_meta_properties
from kafkaraw.errors import ConfigError
from kafkaraw.protocol import Uuid

FIRST, SECOND = Uuid(range(16)), Uuid(range(1, 17))
FOLDERS = ("t-0", "t-1.0123abcd-delete", "t-2.0123abcd-future", "t-3.0123abcd-stray", "lost+found")


def listing(path: str = "/a", *, cluster: str = "c", node: int = 1, directory: Uuid | None = FIRST) -> Listing:
    meta = write_meta_properties(MetaProperties(cluster, node, directory))
    return Listing(path, FOLDERS, ("meta.properties", ".lock", "kafkaraw-topics.json", "notes.txt"), meta)


def test_directories_of_one_node_and_new_ones_may_be_used_together():
    found = check_directories([listing(), Listing("/b", (), (".lock",), None)], node_id=1, cluster_id="c")
    assert found == [MetaProperties("c", 1, FIRST), None]


@pytest.mark.parametrize(
    ("listings", "problem"),
    [
        ([listing(node=2)], r"node\.id: the data directory /a belongs to node 2, not 1; set node\.id to 2"),
        ([listing(cluster="d")], r"/a belongs to cluster d, the broker to cluster c"),
        ([listing(), listing("/b")], r"/a and /b have the same directory\.id AAECAwQFBgcICQoLDA0ODw"),
        ([listing()._replace(meta="version=2\nnode.id=1\ncluster.id=c\n")], r"version '2' is unknown, only 1 is"),
        ([listing()._replace(meta="version=1\ncluster.id=c\n")], r"node\.id=None and cluster\.id='c' must both be set"),
        ([listing()._replace(folders=("t-0", "photos"))], "/a has 'photos', which is not a broker's"),
        (
            [Listing("/b", ("music",), ("a", "b", "c"), None)],
            "/b has 'a', 'b', 'c' and 1 more, which is not a broker's",
        ),
        ([Listing("/b", (), ("kafkaraw-cluster.json",), None)], "/b is the directory of a cluster of several nodes"),
    ],
)
def test_a_directory_of_something_else_is_refused(listings: list[Listing], problem: str):
    with pytest.raises(ConfigError, match=problem):
        check_directories(listings, node_id=1, cluster_id="c")


def test_directories_of_two_clusters_are_refused():
    with pytest.raises(ConfigError, match="/a belongs to cluster c, /b to cluster d"):
        check_directories([listing(), listing("/b", cluster="d", directory=SECOND)], node_id=1)
