"""The containers run without root, privileges or the Docker socket, and say when they are ill."""

import os
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from tests.house.tree import ROOT

COMPOSE = ROOT / "docker-compose.yml"
WORKERS = ("worker", "worker-gpu")


@pytest.fixture
def services() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE.read_text())["services"])


def test_compose_offers_the_dashboard_and_two_kinds_of_worker(services: dict[str, Any]) -> None:
    assert set(services) == {"web", *WORKERS}


def test_no_container_has_root_capabilities_or_a_writable_root(services: dict[str, Any]) -> None:
    for service in services.values():
        assert service["user"] == "10001:10001"
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "privileged" not in service


def test_no_container_sees_the_docker_socket() -> None:
    assert "docker.sock" not in COMPOSE.read_text()


def test_the_dashboard_is_published_on_loopback_only(services: dict[str, Any]) -> None:
    assert all(port.startswith("127.0.0.1:") for port in services["web"]["ports"])
    assert all("ports" not in services[name] for name in WORKERS)


def test_every_container_shares_the_database_volume(services: dict[str, Any]) -> None:
    assert all("data:/data" in service["volumes"] for service in services.values())
    assert "data" in yaml.safe_load(COMPOSE.read_text())["volumes"]


def test_workers_wait_for_a_healthy_dashboard(services: dict[str, Any]) -> None:
    waits = [services[name]["depends_on"]["web"]["condition"] for name in WORKERS]

    assert waits == ["service_healthy", "service_healthy"]


def test_every_container_says_when_it_is_ill(services: dict[str, Any]) -> None:
    checks = [services[name]["healthcheck"]["test"] for name in WORKERS]

    assert all(check[-2:] == ["-m", "workers.alive"] for check in checks)
    assert "/api/v1/health" in (ROOT / "Dockerfile").read_text()


def test_the_gpu_worker_starts_only_by_profile_and_asks_for_nvidia(
    services: dict[str, Any],
) -> None:
    gpu = services["worker-gpu"]
    (device,) = gpu["deploy"]["resources"]["reservations"]["devices"]

    assert gpu["profiles"] == ["gpu"]
    assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])


def test_the_image_drops_root_and_installs_by_hash() -> None:
    lines = (ROOT / "Dockerfile").read_text()

    assert "\nUSER 10001:10001\n" in lines
    assert "--require-hashes" in lines


@pytest.mark.slow
def test_docker_compose_accepts_the_file() -> None:
    compose = shutil.which("docker-compose")
    if compose is None:
        pytest.skip("docker-compose is not installed: apt-get install docker-compose")

    done = subprocess.run(
        [compose, "--profile", "gpu", "config", "--quiet"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
