#!/usr/bin/env bash
# Runs a search on a Ray cluster that consists of the nodes of a Slurm job:
#   sbatch --nodes=4 --gpus-per-node=4 cluster/slurm.sh cifar10_resnet --gpus 1
# All arguments are passed to `tuner run`. Set RESUME=NAME to resume that search instead.
#SBATCH --job-name=tuner
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=08:00:00
#SBATCH --signal=B:TERM@120
# (TERM arrives two minutes before the time limit, so that the search can shut down in order)
set -euo pipefail

STORAGE=${STORAGE:-$HOME/tuner-results} # on a file system that all nodes share
PORT=${PORT:-6379}
. "${ENVIRONMENT:-$HOME/tuner-env}/bin/activate"

# Without a token, anyone on a node could run code as you. Only you can read this one
export RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0
export RAY_AUTH_TOKEN_PATH=$HOME/.tuner-token-$SLURM_JOB_ID
(umask 077 && python -c 'import secrets; print(secrets.token_hex(32))' >"$RAY_AUTH_TOKEN_PATH")

nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
head=${nodes[0]}
ray() { srun --nodes=1 --ntasks=1 --nodelist="$1" ray start --block --disable-usage-stats "${@:2}" & }
ray "$head" --head --port="$PORT" --include-dashboard=false
for node in "${nodes[@]:1}"; do
  ray "$node" --address="$head:$PORT"
done
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -f "$RAY_AUTH_TOKEN_PATH"' EXIT

# Wait until the head listens
for _ in $(seq 60); do
  python -c "import socket; socket.create_connection(('$head', $PORT), 2)" 2>/dev/null && break
  sleep 1
done

if [ -n "${RESUME:-}" ]; then
  tuner resume "$RESUME" --storage "$STORAGE" --address "$head:$PORT" --wait-for-resources 5m &
else
  tuner run "$@" --storage "$STORAGE" --address "$head:$PORT" --wait-for-resources 5m &
fi
search=$!
trap 'kill -TERM $search' TERM
wait $search || code=$?
while kill -0 $search 2>/dev/null; do wait $search || code=$?; done
exit "${code:-0}"
