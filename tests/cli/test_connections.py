"""Options that all commands share: profiles, completion; and what ACLs forbid until `kafkaraw acls` allows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.broker.acl.settings import STANDARD_AUTHORIZER
from kafkaraw.cli import main
from tests.cli.running import make_topic, run

PASSWORD = "opensesame-4711"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file with profiles of two users of a broker with an authorizer; `root` is a super user."""
    properties = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"}
    with EmbeddedBroker(properties=properties, users={"root": PASSWORD, "ada": PASSWORD}) as broker:
        path = tmp_path_factory.mktemp("profiles") / "profiles.toml"
        path.write_text(
            "".join(
                f'[{user}]\nbootstrap.servers = "{broker.bootstrap_servers}"\nsecurity.protocol = "SASL_PLAINTEXT"\n'
                f'sasl.mechanism = "PLAIN"\nsasl.username = "{user}"\nsasl.password = "{PASSWORD}"\n'
                for user in ("root", "ada")
            )
        )
        yield path


def as_user(path: Path, profile: str, command: str, code: int = 0) -> Result:
    result = CliRunner(env={"KAFKARAW_PROFILES": str(path), "KAFKARAW_PROFILE": profile}).invoke(main, command.split())
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result


def test_what_an_acl_forbids_is_an_error_until_acls_add_allows_it(secured: Path) -> None:
    as_user(secured, "root", "topics create flights -p 1 -r 1")
    refused = as_user(secured, "ada", "topics describe flights", code=1).stderr
    assert "TOPIC_AUTHORIZATION_FAILED" in refused and "DESCRIBE on topic 'flights'" in refused
    for command in ("topics delete flights --yes", "configs set -t flights retention.ms=5", "acls list", "users list"):
        assert "AUTHORIZATION_FAILED" in as_user(secured, "ada", command, code=1).stderr
    add = "acls add --allow-principal User:ada --operation describe --topic flights"
    as_user(secured, "root", f"{add} --dry-run")
    assert json.loads(as_user(secured, "root", "acls list -o json").stdout) == []
    as_user(secured, "root", add)
    assert "The settings are left out" in as_user(secured, "ada", "topics describe flights").stderr
    (row,) = json.loads(as_user(secured, "root", "acls list --topic flights -o json").stdout)
    assert (row["principal"], row["host"], row["operation"], row["permission"]) == (
        "User:ada",
        "*",
        "DESCRIBE",
        "ALLOW",
    )
    remove = "acls remove --allow-principal User:ada --topic flights"
    assert "Remove 1 ACL? Give --yes" in as_user(secured, "root", remove, code=2).stderr
    as_user(secured, "root", f"{remove} --dry-run")
    assert as_user(secured, "root", f"{remove} --yes").stderr == "Removed 1 ACL.\n"
    as_user(secured, "root", "acls add --allow-principal User:ada --consumer --topic flights --group billing")
    assert len(json.loads(as_user(secured, "root", "acls list --json").stdout)) == 3
    as_user(secured, "root", "acls remove --all --yes")


def test_a_profile_is_used_by_all_commands_and_shown_without_secrets(secured: Path) -> None:
    assert "Everything works." in as_user(secured, "ada", "doctor").stdout
    assert "flights" not in as_user(secured, "ada", "topics list -q").stdout
    listed = as_user(secured, "ada", "profiles list")
    assert "root" in listed.stdout and str(secured) in listed.stderr
    shown = as_user(secured, "ada", "profiles describe ada").stdout
    assert "SASL_PLAINTEXT" in shown and PASSWORD not in shown
    assert "has no table [eve]; its profiles are: root, ada" in as_user(secured, "eve", "topics list", code=2).stderr
    missing = as_user(secured.parent / "none.toml", "ada", "topics list", code=2).stderr
    assert "none.toml; create it, with a table [ada]" in missing


def test_topics_are_completed_from_the_cluster_that_the_options_name(servers: str) -> None:
    make_topic(servers, "completed")

    def completions(address: str) -> list[str]:
        given = ["topics", "describe", "-b", address]
        complete = ShellComplete(main, {}, "kafkaraw", "_KAFKARAW_COMPLETE")
        return [item.value for item in complete.get_completions(given, "comp")]

    assert completions(servers) == ["completed"]
    assert completions("127.0.0.1:1") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0 and "_KAFKARAW_COMPLETE" in result.stdout


def test_a_change_is_refused_without_a_cluster_that_answers() -> None:
    assert "cannot connect" in run("127.0.0.1:1", "topics delete", "t", "--yes", code=1).stderr
