"""What importing costs and changes: measured in fresh processes. Times are measured by `make bench-imports`."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

from kafkaraw.records import IMPLEMENTATION

# What each import may load of this package, with room for a few modules. A higher number needs a reason: each module
# takes about 0.2 ms, on Producer's path for every program that sends a record.
MODULES_MAX = {
    "import kafkaraw": 2,
    "from kafkaraw import Producer": 92,
    "from kafkaraw import Consumer": 92,
    "from kafkaraw import Admin": 67,
    "from kafkaraw import Admin, Consumer, Producer": 123,
    "from kafkaraw.broker import EmbeddedBroker": 178,  # `shares.node`: each node has one, which loads the rest on use;
    # `_cython_shared`: code that each compiled module had before
}
CLIENTS = "from kafkaraw import Admin, Consumer, Producer"
# Who needs one of these imports it on first use; the names are those of modules or packages.
RARELY_USED = {
    CLIENTS: [
        "cramjam",
        "crc32c",
        "difflib",
        "hashlib",
        "hmac",
        "json",
        "lz4",
        "numpy",
        "pathlib",
        "pyarrow",
        "re2",
        "secrets",
        "tempfile",
        "urllib",
        "zstandard",
        "kafkaraw.broker",
        "kafkaraw.client.admin.topics",
        "kafkaraw.client.credentials",
        "kafkaraw.client.deserializers",
        "kafkaraw.client.fetching.arrow",
        "kafkaraw.client.fetching.interception",
        "kafkaraw.client.groups.group",
        "kafkaraw.client.interceptors",
        "kafkaraw.client.java_names",
        "kafkaraw.client.network.diagnosis",
        "kafkaraw.client.network.telemetry",
        "kafkaraw.client.sending.arrow_rows",
        "kafkaraw.client.sending.pipeline",
        "kafkaraw.client.sending.transaction_calls",
        "kafkaraw.client.sending.transactions",
        "kafkaraw.client.serializers",
        "kafkaraw.core.group.assignors",
        "kafkaraw.core.producer.transaction",
        "kafkaraw.core.sasl",
        "kafkaraw.core.telemetry",
        "kafkaraw.net.frame_log",
        "kafkaraw.net.listener",
        "kafkaraw.net.shared_files",
        "kafkaraw.net.tls",
        "kafkaraw.protocol.annotate",
        "kafkaraw.protocol.messages.create_topics",
        "kafkaraw.protocol.messages.offset_for_leader_epoch",
        "kafkaraw.records._fallback.batch_table",
        "kafkaraw.records._fallback.rows",
        "kafkaraw.records._fallback.varint_table",
        "kafkaraw.records._filling",
        "kafkaraw.records.columns",
        "kafkaraw.records.legacy",
        "kafkaraw.records.rows",
        "kafkaraw.records.splitting",
    ],
    "from kafkaraw import Producer": [
        "kafkaraw.client.committed",
        "kafkaraw.client.group_settings",
        "kafkaraw.core.fetch",
        "kafkaraw.records._reader",
        "kafkaraw.records.batch",
    ],
    "from kafkaraw import Consumer": [
        "kafkaraw.records._builder",
        "kafkaraw.records.open_batches",
        "kafkaraw.records.partitioning",
    ],
    "from kafkaraw.broker import EmbeddedBroker": [
        "cramjam",
        "crc32c",
        "difflib",
        "hashlib",
        "ipaddress",
        "lz4",
        "numpy",
        "pyarrow",
        "re2",
        "secrets",
        "tempfile",
        "uuid",
        "zstandard",
        "kafkaraw.client",
        "kafkaraw.broker.child",
        "kafkaraw.broker.groups.coordinator",
        "kafkaraw.broker.handlers.create_topics",
        "kafkaraw.broker.handlers.produce",
        "kafkaraw.broker.security.sasl_authenticator",
        "kafkaraw.broker.transactions.coordinator",
        "kafkaraw.net.tls",
        "kafkaraw.protocol.messages.create_topics",
        "kafkaraw.records.open_batches",
        "kafkaraw.broker.embedded_cluster",
        "kafkaraw.broker.log.file_storage",
    ],
}


def in_fresh_process(code: str) -> object:
    """What the code prints, as JSON."""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def loaded_by(statement: str) -> list[str]:
    found = in_fresh_process(f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))")
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("statement", MODULES_MAX)
def test_an_import_loads_a_bounded_number_of_modules(statement: str) -> None:
    ours = [name for name in loaded_by(statement) if name.partition(".")[0] == "kafkaraw"]
    most = MODULES_MAX[statement]
    assert len(ours) <= most, (
        f"`{statement}` loads {len(ours)} modules of kafkaraw, {most} are allowed. Import what is rarely used where it "
        f"is used, or raise the number in {__name__} with a reason. All that it loads: {' '.join(ours)}"
    )


@pytest.mark.parametrize("statement", RARELY_USED)
def test_what_is_rarely_used_is_imported_on_first_use(statement: str) -> None:
    loaded = loaded_by(statement)
    standard = set(loaded_by("import asyncio"))
    early = [
        name
        for rare in RARELY_USED[statement]
        for name in loaded
        if (name == rare or name.startswith(f"{rare}.")) and name not in standard
    ]
    if IMPLEMENTATION == "python":
        early = [name for name in early if "_fallback" not in name and name != "kafkaraw.records.columns"]
    assert not early, f"`{statement}` loads {' '.join(early)}; `python -X importtime -c ...` shows who imports them"


def test_names_of_pipelines_are_imported_on_first_use_and_without_spark() -> None:
    assert [name for name in loaded_by("import kafkaraw") if name.startswith("kafkaraw.pipelines")] == []
    lazy = loaded_by("from kafkaraw import pipelines")
    assert [name for name in lazy if name.startswith("kafkaraw.pipelines")] == ["kafkaraw.pipelines"]
    every = loaded_by("from kafkaraw import pipelines\n[getattr(pipelines, name) for name in pipelines.__all__]")
    assert {"pyspark", "pyarrow", "yaml"} & set(every) == set()


# Each function changes something of the whole process. Modules of Python's own may call it; modules of ours may not.
WATCHED = """
import asyncio, atexit, ctypes, faulthandler, gc, locale, logging, os, signal, socket, sys, threading, warnings

def called_by_ours():
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.partition(".")[0] == "kafkaraw":
            return name
        if not name.startswith("importlib") and name not in ("__main__", "functools", "contextlib"):
            return None
        frame = frame.f_back
    return None

found = []

def watch(owner, name):
    original = getattr(owner, name)
    def watched(*arguments, **options):
        if caller := called_by_ours():
            found.append(f"{caller} calls {owner.__name__}.{name}")
        return original(*arguments, **options)
    setattr(owner, name, watched)

for owner, names in {
    atexit: ["register"],
    ctypes: ["CDLL"],
    faulthandler: ["enable", "register"],
    gc: ["collect", "disable", "freeze", "set_threshold"],
    locale: ["setlocale"],
    logging: ["addLevelName", "basicConfig", "captureWarnings", "setLoggerClass"],
    os: ["chdir", "fork", "open", "pipe", "putenv", "register_at_fork", "setpriority", "umask", "unsetenv"],
    signal: ["set_wakeup_fd", "signal"],
    socket: ["setdefaulttimeout"],
    sys: ["addaudithook", "setrecursionlimit", "setprofile", "settrace", "setswitchinterval"],
    threading: ["excepthook", "setprofile", "settrace", "stack_size"],
    warnings: ["filterwarnings", "simplefilter"],
}.items():
    for name in names:
        watch(owner, name)

def state():
    return {
        "environment": dict(os.environ),
        "threads": threading.active_count(),
        "hooks": [sys.excepthook, sys.unraisablehook, threading.excepthook, sys.displayhook],
        "path": [list(sys.path), list(sys.meta_path), list(sys.path_hooks)],
        "frozen": gc.get_freeze_count(),
        "collector": [gc.isenabled(), gc.get_threshold()],
        "handlers": [logging.getLogger().handlers, logging.getLogger("kafkaraw").handlers, logging.root.level],
        "policy": asyncio.get_event_loop_policy(),
        "descriptors": len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
    }

before = state()
"""
IMPORTED = """
import importlib, pkgutil
import kafkaraw
for name in kafkaraw.__all__:
    getattr(kafkaraw, name)
for package in ("kafkaraw.client", "kafkaraw.broker", "kafkaraw.core", "kafkaraw.net", "kafkaraw.records",
                "kafkaraw.protocol", "kafkaraw.inspect", "kafkaraw.spark", "kafkaraw.testing", "kafkaraw.cli"):
    module = importlib.import_module(package)
    for each in pkgutil.walk_packages(module.__path__, package + "."):
        if not each.name.endswith("__main__"):
            try:
                importlib.import_module(each.name)
            except ModuleNotFoundError as missing:
                assert not missing.name.startswith("kafkaraw"), missing  # an optional package
"""
COMPARED = """
after = state()
import json
found += [f"{name} has changed: {before[name]} -> {after[name]}" for name in before if before[name] != after[name]]
print(json.dumps(found))
"""


def test_importing_changes_nothing_of_the_process() -> None:
    found = in_fresh_process(WATCHED + IMPORTED + COMPARED)
    assert found == [], "see docs/process-state.md: state of the process changes on first use, never on import"


def test_the_check_of_process_state_finds_a_change() -> None:
    planted = "exec(compile('import atexit; atexit.register(print)', 'x', 'exec'), {'__name__': 'kafkaraw.planted'})\n"
    found = in_fresh_process(WATCHED + planted + "os.environ['KAFKARAW_PLANTED'] = '1'\n" + COMPARED)
    assert isinstance(found, list)
    assert found[0] == "kafkaraw.planted calls atexit.register"
    assert found[1].startswith("environment has changed")


def test_the_first_client_registers_one_hook_for_forks_and_one_for_the_end() -> None:
    code = """
        from kafkaraw import Consumer, Producer
        with Producer(bootstrap_servers="127.0.0.1:1"), Producer(bootstrap_servers="127.0.0.1:1"):
            pass
        Consumer(bootstrap_servers="127.0.0.1:1").close()
    """
    found = in_fresh_process(WATCHED + textwrap.dedent(code) + "import json\nprint(json.dumps(found))")
    assert [line for line in found if "register" in line] == [  # type: ignore[attr-defined]
        "kafkaraw.net.process_hooks calls os.register_at_fork",
        "kafkaraw.net.process_hooks calls atexit.register",
    ]
