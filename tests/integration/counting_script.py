"""A script that knows nothing of tuner: it prints JSON lines, and waits at a gate in an epoch.

    counting_script.py GATE EPOCH LR

It goes on from its checkpoint. GATE: a folder; while it has no file `open`, EPOCH waits, where 5 is
what follows the last epoch.
"""

import json
import os
import sys
import time
from pathlib import Path

gate, gated, lr = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])


def pass_gate(epoch):
    while epoch == gated and not (gate / "open").exists():
        (gate / "waits").touch()
        time.sleep(0.05)


before = os.environ.get("TUNER_RESUME_FROM")
done = int((Path(before) / "epoch").read_text()) if before else 0
(gate / f"pid-{os.getpid()}").touch()
for epoch in range(done + 1, 5):
    time.sleep(0.3)  # it trains
    pass_gate(epoch)
    (Path(os.environ["TUNER_CHECKPOINT_DIR"]) / "epoch").write_text(str(epoch))
    print(json.dumps({"loss": lr / epoch, "began_at": done}), flush=True)
pass_gate(5)
Path("end.txt").write_text(os.environ["TUNER_SEED"])
