"""`multimodal doctor --network` where UDP really vanishes: on the way to a server, and on the machine itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.coturn import MISSING, SECRET, coturn
from tests.netns.hostile import SERVER, alone, cannot, lab
from tests.netns.hostile_tour import TURN_PORT, start_role, stop, until_line
from tests.netns.places import URL

_SCRIPT = """
import json
from multimodal.doctor_network_here import examine_addresses, examine_families, examine_udp
found = [*examine_udp(["127.0.0.1"], limit=0.5), *examine_families(), examine_addresses({"lo": ["127.0.0.1"]}, [])]
print(json.dumps([finding.state for finding in found]), found[0].came)
"""


@pytest.fixture(autouse=True, scope="module")
def possible() -> None:
    """Skips, and says why, where there are no such networks."""
    why = cannot()
    if why:
        pytest.skip(why)


def test_a_machine_that_drops_its_own_udp_and_has_no_route_is_told_so() -> None:
    # The rule for local addresses comes first in every namespace: it makes way for the one that drops.
    rules = "ip rule add pref 100 lookup local; ip rule add pref 10 ipproto udp blackhole; ip rule del pref 0"
    command = ["unshare", "--map-root-user", "--net", "sh", "-c", f'ip link set lo up; {rules}; exec "$@"', "sh"]
    done = subprocess.run(
        [*command, sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    states, _, came = done.stdout.partition("] ")
    assert json.loads(f"{states}]") == ["broken", "note", "good", "broken"]
    assert "the kernel refused" in came


def test_udp_that_is_dropped_on_the_way_is_told_apart_from_a_server_that_is_down() -> None:
    if shutil.which("turnserver") is None:
        pytest.skip(MISSING)
    out, err = alone("tests.netns.test_doctor").communicate()
    assert out, err
    told: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert told["rc"] == 1, told
    assert told["report"]["ok"] is False
    found = {entry["name"]: entry for group in ("ice", "server") for entry in told["report"][group]}
    stun, by_udp, by_tcp = (found[f"{kind}:{SERVER}:{TURN_PORT}{end}"] for kind, end in _ICE)
    for entry in (stun, by_udp):
        assert entry["state"] == "broken"
        assert "UDP is dropped on the way" in entry["came"]
    assert by_tcp["state"] == "good"
    assert found["WebRTC"]["state"] == "broken"
    assert SERVER in found["WebRTC"]["came"]
    assert {found[name]["state"] for name in ("server", "server clock", "WebSocket", "SSE")} == {"good"}


_ICE = (("stun", ""), ("turn", "?transport=udp"), ("turn", "?transport=tcp"))


def _examine() -> None:
    """From within a namespace: the command itself, on the viewer's machine, UDP dropped by the router."""
    with ExitStack() as stack:
        made = stack.enter_context(lab())
        record = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "emitted"
        stack.enter_context(coturn(SERVER, enter=made.enter("server"), port=TURN_PORT))
        server = start_role(made, "server", "serve", "--words", "400", "--record", str(record))
        stack.callback(stop, server)
        until_line(server, "ready")
        made.drop_udp()
        ice = [word for kind, end in _ICE for word in ("--ice", f"{kind}:{SERVER}:{TURN_PORT}{end}")]
        words = ["doctor", "--network", "--url", URL, *ice, "--turn-secret-env", "RELAY_SECRET", "--json"]
        doctor = made.start("viewer", "env", f"RELAY_SECRET={SECRET}", sys.executable, "-m", "multimodal", *words)
        out, err = doctor.communicate(timeout=60)
        print(json.dumps({"rc": doctor.returncode, "report": json.loads(out), "said": err}))


if __name__ == "__main__":
    _examine()
