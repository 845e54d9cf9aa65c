"""Ray clusters of several real nodes on this machine, for tests.

As root on Linux each node has a network namespace and an address of its own, behind a bridge, so
that a node can be cut off, and a private mount where one is asked for. Elsewhere the nodes have
addresses of the loopback device.
"""

import os
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from tuner.cluster import access
from tuner.trial import guard

STORE = 80_000_000
PATIENCE_S = 180
NOTICE_S = 15
# Between SIGTERM and the end of a node
_NOTICE = "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"
_NETS = range(16, 250)
RAY_START = [
    sys.executable,
    "-m",
    "ray.scripts.scripts",
    "start",
    f"--object-store-memory={STORE}",
    "--disable-usage-stats",
]


def may_make_namespaces():
    if os.geteuid() or not shutil.which("ip"):
        return False
    probe = f"tp{os.getpid()}"
    made = subprocess.run(
        ["ip", "netns", "add", probe], capture_output=True, check=False
    )
    if made.returncode:
        return False
    ip(f"netns del {probe}")
    return True


def ip(arguments):
    subprocess.run(["ip", *arguments.split()], check=True, capture_output=True)


class Node:
    """One `ray start --block`, with whatever it has started."""

    def __init__(
        self,
        cluster,
        number,
        *,
        head=False,
        cpus=2,
        private=None,
        dashboard=False,
        data=None,
    ):
        self.address = cluster.address_of(number)
        self.inside = cluster.enter(number)
        self.mark = secrets.token_hex(4)
        self.log = cluster.folder / f"node{number}-{self.mark}.log"
        agent_port = 52365 if cluster.namespaces else free_port()
        command = [
            *RAY_START,
            "--block",
            f"--node-ip-address={self.address}",
            f"--num-cpus={cpus}",
            f"--dashboard-agent-listen-port={agent_port}",
            # Or one removes another's files
            f"--temp-dir={cluster.folder / self.mark}",
        ]
        if head:
            command += ["--head", f"--port={cluster.port}"]
            command += [f"--include-dashboard={str(dashboard).lower()}"]
        else:
            command += ["--address", cluster.head]
        if dashboard:
            command += [f"--dashboard-host={self.address}"]
            command += [f"--dashboard-port={cluster.dashboard}"]
        if private:  # what is mounted there is this node's alone
            mount = f'mount -t tmpfs none {private} && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", mount, "sh", *command]
        environment = {
            _NOTICE: str(NOTICE_S),
            **cluster.foreign,
            **cluster.environment,
            **({"TUNER_DATA": str(data)} if data else {}),
            guard.MARK: self.mark,
        }
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [*self.inside, *command],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def pids(self):
        return guard.find_marked(self.mark, "/nowhere")

    def shut_down(self):
        """Ask it to end, as a system does that shuts down: it gives notice, of NOTICE_S."""
        self.process.terminate()

    def kill(self):
        """End it as a power cut would."""
        while pids := self.pids():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        self.process.wait()


def taken_nets():
    """Which 10.213.N.0/24 this machine has: those of other clusters."""
    addresses = subprocess.run(
        ["ip", "-o", "addr"], check=True, capture_output=True, text=True
    )
    return {
        int(number) for number in re.findall(r" 10\.213\.(\d+)\.", addresses.stdout)
    }


class Cluster:
    """Nodes by number; 1 is the head."""

    def __init__(self, folder, *, namespaces):
        self.folder = folder
        self.namespaces = namespaces
        self.net = next(n for n in _NETS if not namespaces or n not in taken_nets())
        self.tag = f"t{os.getpid() % 100_000}{self.net:02x}"
        self.port = 6379 if namespaces else free_port()
        self.dashboard = 8265 if namespaces else free_port()
        self.token = secrets.token_hex(32)
        self.nodes = {}
        self.made = []
        if namespaces:
            # An address of its own: a bridge without one takes the lowest of its members', and
            # what a node joins would change it under those that have it in their ARP tables
            ip(f"link add {self.tag}b address 02:00:00:00:00:01 type bridge")
            ip(f"addr add 10.213.{self.net}.1/24 dev {self.tag}b")
            ip(f"link set {self.tag}b up")

    @property
    def head(self):
        return f"{self.address_of(1)}:{self.port}"

    @property
    def here(self):
        """Where the nodes reach this process."""
        return f"10.213.{self.net}.1" if self.namespaces else "127.0.0.1"

    @property
    def foreign(self):
        """This process's environment without what belongs to a Ray that it has started."""
        of_ours = ("RAY_", "TUNER_", "GLOO_", "NCCL_")
        return {k: v for k, v in os.environ.items() if not k.startswith(of_ours)}

    @property
    def environment(self):
        """With which one may join it."""
        return {
            access.AUTH_MODE: "token",
            access.TOKEN: self.token,
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": os.pathsep.join(map(str, sys.path)),
        }

    def address_of(self, number):
        return (
            f"10.213.{self.net}.{10 + number}"
            if self.namespaces
            else f"127.0.0.{10 + number}"
        )

    def enter(self, number):
        """The command that runs another one where node `number` is; made at the first time."""
        if not self.namespaces:
            return []
        name = f"{self.tag}n{number}"
        if number not in self.made:
            ip(f"netns add {name}")
            self.made.append(number)
            cable = f"{self.tag}v{number}"
            ip(f"link add {cable} type veth peer eth0 netns {name}")
            ip(f"link set {cable} master {self.tag}b")
            ip(f"link set {cable} up")
            ip(f"-n {name} addr add {self.address_of(number)}/24 dev eth0")
            ip(f"-n {name} link set eth0 up")
            ip(f"-n {name} link set lo up")
        return ["ip", "netns", "exec", name]

    @contextmanager
    def cut(self, number):
        """Within it, nothing reaches node `number`, nor does it reach anything."""
        ip(f"link set {self.tag}v{number} down")
        try:
            yield
        finally:
            ip(f"link set {self.tag}v{number} up")

    def outside(self, number=9):
        """The command that runs another one on a machine of its own, a node without CPUs.

        It sees no other processes, and the node ends with it.
        """
        place = f"--node-ip-address={self.address_of(number)}"
        nothing = ("--num-cpus=0", "--num-gpus=0")
        join = [*RAY_START, "--address", self.head, place, *nothing]
        script = f'{shlex.join(join)} >/dev/null && exec "$@"'
        unshare = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c"]
        isolated = [*unshare, script, "sh"]
        return [*self.enter(number), *isolated]

    def start(self, number, **options):
        self.nodes[number] = Node(self, number, head=number == 1, **options)
        return self.nodes[number]

    def await_nodes(self, count):
        """Until so many are alive."""
        deadline = time.monotonic() + PATIENCE_S
        while self.alive() != count:
            logs = [node.log.read_text()[-800:] for node in self.nodes.values()]
            assert time.monotonic() < deadline, "\n".join(logs)
            time.sleep(0.2)

    def _joining(self):
        names = (access.AUTH_MODE, access.TOKEN)
        return access.set_environment({name: self.environment[name] for name in names})

    def alive(self):
        """How many nodes the head takes for alive."""
        host, _, port = self.head.rpartition(":")
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            return 0
        with self._joining():
            from ray._raylet import GcsClient
            from ray.core.generated.gcs_pb2 import GcsNodeInfo

            nodes = GcsClient(self.head).get_all_node_info(timeout=PATIENCE_S).values()
            return sum(node.state == GcsNodeInfo.GcsNodeState.ALIVE for node in nodes)

    def close(self):
        for node in self.nodes.values():
            node.kill()
        for number in self.made:
            # It would outlive its namespace for a while
            ip(f"link del {self.tag}v{number}")
            ip(f"netns del {self.tag}n{number}")
        if self.namespaces:
            ip(f"link del {self.tag}b")
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


@contextmanager
def cluster():
    """A cluster without nodes; all that is started in it ends with it."""
    made = Cluster(
        Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp")),
        namespaces=may_make_namespaces(),
    )
    try:
        yield made
    finally:
        made.close()
