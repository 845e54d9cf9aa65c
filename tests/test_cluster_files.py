"""The ready-made files in cluster/: each read by the parser of what it is for."""

import os
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

CLUSTER = Path(__file__).parent.parent / "cluster"
KUBERAY = ("raycluster.yaml", "rayjob.yaml")


def documents(name):
    return [each for each in yaml.safe_load_all((CLUSTER / name).read_text()) if each]


def ray_cluster(name):
    """The spec of the RayCluster in a manifest."""
    [resource] = [each for each in documents(name) if each["apiVersion"] == "ray.io/v1"]
    return resource["spec"].get("rayClusterSpec", resource["spec"])


def pods(name):
    spec = ray_cluster(name)
    return [spec["headGroupSpec"], *spec["workerGroupSpecs"]]


@pytest.mark.parametrize("name", ["on_prem.yaml", "aws.yaml"])
def test_cluster_file_is_valid_for_ray_up(name):
    from ray.autoscaler._private.util import prepare_config, validate_config

    [config] = documents(name)
    prepared = prepare_config(config)
    validate_config(prepared)
    starts = [
        *prepared["head_start_ray_commands"],
        *prepared["worker_start_ray_commands"],
    ]
    assert all(
        "RAY_AUTH_MODE=token" in start for start in starts if "ray start" in start
    )
    assert any(path.endswith(".ray/auth_token") for path in prepared["file_mounts"])


@pytest.mark.parametrize("name", ["on_prem.yaml", "aws.yaml"])
def test_ray_start_options_exist(name):
    [config] = documents(name)
    for command in [
        *config["head_start_ray_commands"],
        *config["worker_start_ray_commands"],
    ]:
        _, separator, options = command.partition("ray start ")
        if separator:
            taken_by_ray(options.split())


@pytest.mark.parametrize("name", KUBERAY)
def test_pod_ray_start_options_exist(name):
    for pod in pods(name):
        for key, value in pod["rayStartParams"].items():
            taken_by_ray([f"--{key}={value}"])


def taken_by_ray(options):
    """Let Ray's own command line read them, without a start."""
    from ray.scripts.scripts import start

    start.make_context("start", list(options))


@pytest.mark.parametrize("name", KUBERAY)
def test_a_manifest_asks_for_a_token_and_lets_each_pod_use_the_bucket(name):
    spec = ray_cluster(name)
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["rayVersion"] == version("ray")
    for pod in pods(name):
        [container] = pod["template"]["spec"]["containers"]
        mounts = {
            mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]
        }
        assert mounts["shm"] == "/dev/shm"
        volumes = {volume["name"] for volume in pod["template"]["spec"]["volumes"]}
        assert volumes == set(mounts)
        assert container["envFrom"] == [
            {"secretRef": {"name": "tuner-s3", "optional": True}}
        ]
        assert container["resources"]["requests"] == container["resources"]["limits"]


def test_lasting_cluster_has_shared_folder():
    for pod in pods("raycluster.yaml"):
        [container] = pod["template"]["spec"]["containers"]
        mounts = {
            mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]
        }
        assert mounts["results"] == "/shared"
        volumes = {
            volume["name"]: volume for volume in pod["template"]["spec"]["volumes"]
        }
        assert volumes["results"]["persistentVolumeClaim"] == {
            "claimName": "tuner-results"
        }
    [claim] = [
        e for e in documents("raycluster.yaml") if e["kind"] == "PersistentVolumeClaim"
    ]
    assert claim["metadata"]["name"] == "tuner-results"
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_rayjob_entrypoint_is_tuner_command():
    from tuner.cli.main import cli

    [job] = documents("rayjob.yaml")
    words = job["spec"]["entrypoint"].split()
    assert words[:3] == ["python", "-m", "tuner"]
    command = cli.commands[words[3]]
    params = command.make_context(words[3], words[4:]).params
    assert (params["experiment"], params["storage"]) == (
        "digits",
        "s3://BUCKET/results",
    )
    assert params["address"] == "auto"


# The fields of each kind's spec in Kueue's v1beta2 that kueue.yaml may use, as its CRDs have them
KUEUE = {
    "ResourceFlavor": set(),
    "ClusterQueue": {
        *(
            "cohortName",
            "fairSharing",
            "namespaceSelector",
            "preemption",
            "resourceGroups",
        ),
    },
    "LocalQueue": {"clusterQueue"},
}
# What KubeRay gives the Pod that submits a RayJob
SUBMITTER = {"cpu": 0.5, "memory": 200 << 20}


def kueue(kind):
    return [each for each in documents("kueue.yaml") if each["kind"] == kind]


def amount(quantity):
    """A quantity of Kubernetes, as a number."""
    number, unit = re.fullmatch(r"([\d.]+)(Gi|Mi)?", str(quantity)).groups()
    return float(number) * {"Gi": 1 << 30, "Mi": 1 << 20, None: 1}[unit]


def test_kueue_manifests_match_schema():
    for document in documents("kueue.yaml"):
        assert document["apiVersion"] == "kueue.x-k8s.io/v1beta2"
        assert set(document.get("spec", {})) <= KUEUE[document["kind"]]
        assert set(document) <= {"apiVersion", "kind", "metadata", "spec"}


def test_local_queue_leads_to_cluster_queue_of_cohort():
    queues = {each["metadata"]["name"]: each["spec"] for each in kueue("ClusterQueue")}
    flavors = {each["metadata"]["name"] for each in kueue("ResourceFlavor")}
    assert len(kueue("LocalQueue")) == len(queues) > 1
    for local in kueue("LocalQueue"):
        spec = queues[local["spec"]["clusterQueue"]]
        label = {"kubernetes.io/metadata.name": local["metadata"]["namespace"]}
        assert spec["namespaceSelector"] == {"matchLabels": label}
        [group] = spec["resourceGroups"]
        for flavor in group["flavors"]:
            assert flavor["name"] in flavors
            assert [resource["name"] for resource in flavor["resources"]] == group[
                "coveredResources"
            ]
    assert len({spec["cohortName"] for spec in queues.values()}) == 1


def test_rayjob_fits_user_quota_and_kueue():
    [job] = documents("rayjob.yaml")
    assert job["spec"]["shutdownAfterJobFinishes"] is True
    assert "clusterSelector" not in job["spec"]
    total = dict(SUBMITTER)
    for pod in pods("rayjob.yaml"):
        [container] = pod["template"]["spec"]["containers"]
        for name, quantity in container["resources"]["requests"].items():
            total[name] += pod.get("replicas", 1) * amount(quantity)
    for spec in (each["spec"] for each in kueue("ClusterQueue")):
        [flavor] = spec["resourceGroups"][0]["flavors"]
        quota = {
            resource["name"]: amount(resource["nominalQuota"])
            for resource in flavor["resources"]
        }
        assert all(total[name] <= quota[name] for name in total)
        # A second one has no room
        assert all(total[name] > 0.9 * quota[name] for name in total)


def test_queue_label_names_local_queue():
    text = (CLUSTER / "kueue.yaml").read_text()
    [name] = {each["metadata"]["name"] for each in kueue("LocalQueue")}
    assert f"kueue.x-k8s.io/queue-name={name} -o yaml" in text
    assert "-f cluster/rayjob.yaml" in text


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


def test_commands_in_cluster_files_exist():
    from tuner.cli.main import cli

    for line in "".join(path.read_text() for path in CLUSTER.iterdir()).splitlines():
        _, separator, rest = line.partition("tuner submit ")
        if separator:
            done = CliRunner().invoke(cli, ["submit", "--help"])
            assert all(
                word in done.stdout for word in rest.split() if word.startswith("--")
            )
