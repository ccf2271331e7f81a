"""Open MPI's transports: under each of them, the same result after a kill as undisturbed."""

import json
import subprocess

import pytest

from belaytest import assert_recovered

UCX = {"pml": "ucx", "opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"}

# Settings of Open MPI (OMPI_MCA_...) by the transport that they choose.
TRANSPORTS = {
    "shared memory, copied once": {"btl": "self,vader", "btl_vader_single_copy_mechanism": "cma"},
    "shared memory, copied twice": {"btl": "self,vader", "btl_vader_single_copy_mechanism": "none"},
    "tcp": {"btl": "self,tcp"},
    "libfabric tcp": {"pml": "cm", "mtl": "ofi", "mtl_ofi_provider_include": "tcp;ofi_rxm"},
    "libfabric sockets": {"pml": "cm", "mtl": "ofi", "mtl_ofi_provider_include": "sockets"},
    "ucx": UCX,
}
# What is not in the default check: close to another one.
LONG = {"shared memory, copied once", "shared memory, copied twice", "libfabric sockets"}


@pytest.mark.parametrize("settings, told", [({"btl": "self,vader,tcp"}, "ob1 over shared memory (single copy: "),
                                            ({"btl": "self,tcp"}, "ob1 over tcp"),
                                            (TRANSPORTS["libfabric tcp"], "cm over libfabric")])
def test_doctor_names_the_transport(sandbox, settings, told):
    sandbox.environment.update({f"OMPI_MCA_{name}": value for name, value in settings.items()})
    checks = {check["name"]: check for check in json.loads(sandbox.belay("doctor", "--json").stdout)["checks"]}
    if settings.get("mtl") and checks["transports"]["state"] != "ok":
        pytest.skip("Open MPI has no such transport here")
    assert checks["transports"]["found"].startswith(told), checks["transports"]


def parameters():
    for name, settings in TRANSPORTS.items():
        marks = [pytest.mark.campaign] if name in LONG else []
        yield pytest.param(settings, id=name.replace(",", "").replace(" ", "-"), marks=marks)


@pytest.mark.parametrize("settings", parameters())
def test_transport(sandbox, programs, settings):
    chosen = {f"OMPI_MCA_{name}": value for name, value in settings.items()}
    program = programs.test_program("ring", "--steps", 200)
    probe = subprocess.run(["mpirun", "-n", "2", programs.test_program("ring").argv[0], "--steps", "1"],
                           env={**sandbox.environment, **chosen}, capture_output=True, timeout=60, check=False)
    if probe.returncode:
        pytest.skip(f"Open MPI has no such transport here: {settings}")
    job = sandbox.run(program, seconds=1, interval="150ms", **chosen)
    job.wait_lines()
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)
