"""The ready-made files in cluster/: each read by the parser of what it is for."""

import os
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

CLUSTER = Path(__file__).parent.parent / "cluster"


def documents(name):
    return [each for each in yaml.safe_load_all((CLUSTER / name).read_text()) if each]


def pick(name, kind):
    """The documents of a kind."""
    return [each for each in documents(name) if each["kind"] == kind]


def list_pods(name):
    """The groups of Pods of the RayCluster in a manifest, and its spec."""
    [resource] = [each for each in documents(name) if each["apiVersion"] == "ray.io/v1"]
    spec = resource["spec"].get("rayClusterSpec", resource["spec"])
    return [spec["headGroupSpec"], *spec["workerGroupSpecs"]], spec


def assert_taken_by_ray(options):
    """Let Ray's own command line read them, without a start."""
    from ray.scripts.scripts import start

    start.make_context("start", list(options))


@pytest.mark.parametrize("name", ["on_prem.yaml", "aws.yaml"])
def test_cluster_file_is_valid_for_ray_up(name):
    from ray.autoscaler._private.util import prepare_config, validate_config

    [config] = documents(name)
    prepared = prepare_config(config)
    validate_config(prepared)
    commands = prepared["head_start_ray_commands"]
    starts = [
        command.partition("ray start ")
        for command in (*commands, *prepared["worker_start_ray_commands"])
        if "ray start " in command
    ]
    assert len(starts) == 2
    for before, _, options in starts:
        assert "RAY_AUTH_MODE=token" in before
        assert_taken_by_ray(options.split())
    assert any(path.endswith(".ray/auth_token") for path in prepared["file_mounts"])


@pytest.mark.parametrize("name", ["raycluster.yaml", "rayjob.yaml"])
def test_manifest_asks_for_a_token_and_lets_each_pod_use_the_bucket(name):
    groups, spec = list_pods(name)
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["rayVersion"] == version("ray")
    for pod in groups:
        params = pod["rayStartParams"].items()
        assert_taken_by_ray(f"--{key}={value}" for key, value in params)
        [container] = pod["template"]["spec"]["containers"]
        mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        volumes = {each["name"]: each for each in pod["template"]["spec"]["volumes"]}
        assert volumes.keys() == mounts.keys()
        assert mounts["shm"] == "/dev/shm"
        secret = {"name": "tuner-s3", "optional": True}
        assert container["envFrom"] == [{"secretRef": secret}]
        assert container["resources"]["requests"] == container["resources"]["limits"]
        if name == "raycluster.yaml":
            assert mounts["results"] == "/shared"
            [claim] = pick(name, "PersistentVolumeClaim")
            claimed = volumes["results"]["persistentVolumeClaim"]
            assert claimed == {"claimName": claim["metadata"]["name"]}
            assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_rayjob_entrypoint_is_tuner_command():
    from tuner.cli.main import cli

    [job] = documents("rayjob.yaml")
    *program, name = job["spec"]["entrypoint"].split()[:4]
    assert program == ["python", "-m", "tuner"]
    words = job["spec"]["entrypoint"].split()[4:]
    params = cli.commands[name].make_context(name, words).params
    assert params["experiment"] == "digits"
    assert params["storage"] == "s3://BUCKET/results"
    assert params["address"] == "auto"


# The fields of each kind's spec in Kueue's v1beta2 that kueue.yaml may use, as its CRDs have them
KUEUE = {
    "ResourceFlavor": "",
    "ClusterQueue": "cohortName fairSharing namespaceSelector preemption resourceGroups",
    "LocalQueue": "clusterQueue",
}
# What KubeRay gives the Pod that submits a RayJob
SUBMITTER = {"cpu": 0.5, "memory": 200 << 20}


def count(quantity):
    """A quantity of Kubernetes, as a number."""
    number, unit = re.fullmatch(r"([\d.]+)(Gi|Mi)?", str(quantity)).groups()
    return float(number) * {"Gi": 1 << 30, "Mi": 1 << 20, None: 1}[unit]


def test_local_queues_of_kueue_lead_to_cluster_queues_of_one_cohort():
    for document in documents("kueue.yaml"):
        assert document["apiVersion"] == "kueue.x-k8s.io/v1beta2"
        assert {*document.get("spec", {})} <= {*KUEUE[document["kind"]].split()}
    queues = pick("kueue.yaml", "ClusterQueue")
    specs = {each["metadata"]["name"]: each["spec"] for each in queues}
    local_queues = pick("kueue.yaml", "LocalQueue")
    assert len(local_queues) == len(specs) > 1
    [flavor] = pick("kueue.yaml", "ResourceFlavor")
    for queue in local_queues:
        spec = specs[queue["spec"]["clusterQueue"]]
        label = {"kubernetes.io/metadata.name": queue["metadata"]["namespace"]}
        assert spec["namespaceSelector"] == {"matchLabels": label}
        [group] = spec["resourceGroups"]
        [offered] = group["flavors"]
        assert offered["name"] == flavor["metadata"]["name"]
        names = [resource["name"] for resource in offered["resources"]]
        assert names == group["coveredResources"]
    assert len({spec["cohortName"] for spec in specs.values()}) == 1
    [name] = {queue["metadata"]["name"] for queue in local_queues}
    text = (CLUSTER / "kueue.yaml").read_text()
    assert f"-f cluster/rayjob.yaml kueue.x-k8s.io/queue-name={name} -o yaml" in text


def test_rayjob_fills_the_quota_of_a_user_of_kueue():
    [job] = documents("rayjob.yaml")
    assert job["spec"]["shutdownAfterJobFinishes"] is True
    assert "clusterSelector" not in job["spec"]
    total = dict(SUBMITTER)
    for pod in list_pods("rayjob.yaml")[0]:
        [container] = pod["template"]["spec"]["containers"]
        for name, quantity in container["resources"]["requests"].items():
            total[name] += pod.get("replicas", 1) * count(quantity)
    for queue in pick("kueue.yaml", "ClusterQueue"):
        [flavor] = queue["spec"]["resourceGroups"][0]["flavors"]
        for resource in flavor["resources"]:
            if resource["name"] in total:  # a second job has no room
                share = total[resource["name"]] / count(resource["nominalQuota"])
                assert 0.9 < share <= 1


def test_image_copies_existing_files_and_pins_versions():
    lines = (CLUSTER / "Dockerfile").read_text().splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ")]
    assert all((CLUSTER.parent / name).exists() for names in copied for name in names)
    installs = [line for line in lines if "pip install" in line]
    assert len(installs) == 2
    assert all("--constraint constraints.txt" in line for line in installs)


@pytest.fixture
def slurm(tmp_path):
    """Runs the batch script on two nodes that are played; what it would have run, in order."""
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/bin/activate").touch()
    played = {
        "scontrol": "printf 'one\\ntwo\\n'",
        "srun": f'echo "srun $*" >> {tmp_path}/log; exec sleep 60',
        "python": 'case "$*" in *token*) echo secret;; esac',
        "tuner": f'sleep 0.5; echo "tuner $*" >> {tmp_path}/log; exit 3',
    }
    for name, body in played.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)

    def run(*arguments, **environment):
        done = subprocess.run(
            ["bash", str(CLUSTER / "slurm.sh"), *arguments],
            env={
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "HOME": str(tmp_path),
                "ENVIRONMENT": str(tmp_path / "env"),
                "SLURM_JOB_ID": "7",
                "SLURM_JOB_NODELIST": "one,two",
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, sorted((tmp_path / "log").read_text().splitlines())

    return run


def test_a_slurm_job_starts_a_head_and_nodes_and_exits_as_the_search(slurm, tmp_path):
    code, ran = slurm("digits", "--gpus", "1")
    assert code == 3
    assert ran == [
        "srun --nodes=1 --ntasks=1 --nodelist=one ray start --block --disable-usage-stats "
        "--head --port=6379 --include-dashboard=false",
        "srun --nodes=1 --ntasks=1 --nodelist=two ray start --block --disable-usage-stats "
        "--address=one:6379",
        f"tuner run digits --gpus 1 --storage {tmp_path}/tuner-results --address one:6379 "
        "--wait-for-resources 5m",
    ]
    assert not list(tmp_path.glob(".tuner-token*"))


def test_a_slurm_job_resumes(slurm, tmp_path):
    code, ran = slurm(RESUME="digits")
    assert code == 3
    assert ran[-1].startswith("tuner resume digits --storage")
