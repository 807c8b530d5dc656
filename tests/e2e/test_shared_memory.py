"""Tensors in shared memory, with NVIDIA's client and a real server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

StartServer = Callable[..., Any]


@pytest.fixture(scope="module")
def root(write_models: Callable[[Path], None], tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("repository")
    write_models(path)
    return path


@pytest.fixture
def region() -> Iterator[Any]:
    handle = shm.create_shared_memory_region("region", f"/mn-test-{uuid.uuid4().hex}", 256)
    yield handle
    shm.destroy_shared_memory_region(handle)


def test_tensors_pass_through_shared_memory_in_both_directions(
    root: Path, start_server: StartServer, region: Any
) -> None:
    with triton.InferenceServerClient(start_server(root).address) as client:
        assert "system_shared_memory" in client.get_server_metadata().extensions
        client.register_system_shared_memory("region", region._shm_key, 256)
        assert client.get_system_shared_memory_status().regions["region"].byte_size == 256
        for value in (1.0, 5.0):
            rows = np.full((2, 4), value, np.float32)
            shm.set_shared_memory_region(region, [rows], offset=64)
            tensor = triton.InferInput("x", [2, 4], "FP32")
            tensor.set_shared_memory("region", 32, offset=64)
            outputs = [triton.InferRequestedOutput(name) for name in ("z", "y")]
            outputs[0].set_shared_memory("region", 32, offset=128)
            result = client.infer("double", [tensor], outputs=outputs)
            assert shm.get_contents_as_numpy(region, np.float32, [2, 4], offset=128).tolist() == (-rows).tolist()
            assert result.as_numpy("y").tolist() == (2 * rows).tolist()
            assert list(result.get_output("z").shape) == [2, 4]
        outputs[0].set_shared_memory("region", 16, offset=128)
        with pytest.raises(InferenceServerException, match="has 32 bytes, more than the 16 it has in region 'region'"):
            client.infer("double", [tensor], outputs=outputs)
        with pytest.raises(InferenceServerException, match="already"):
            client.register_system_shared_memory("region", region._shm_key, 256)
        client.unregister_system_shared_memory()
        assert not client.get_system_shared_memory_status().regions
        with pytest.raises(InferenceServerException, match="which nobody registered"):
            client.infer("double", [tensor])


def test_shared_memory_can_be_switched_off(root: Path, start_server: StartServer, region: Any) -> None:
    options = ("--shared-memory", "off", "--server-name", "triton")
    with triton.InferenceServerClient(start_server(root, *options).address) as client:
        metadata = client.get_server_metadata()
        assert (metadata.name, "system_shared_memory" in metadata.extensions) == ("triton", False)
        with pytest.raises(InferenceServerException, match="shared memory is switched off"):
            client.register_system_shared_memory("region", region._shm_key, 256)
        # Clients begin and end with these, whether they use shared memory or not.
        client.unregister_system_shared_memory()
        client.unregister_system_shared_memory("region")
        assert not client.get_system_shared_memory_status().regions
        with pytest.raises(InferenceServerException, match="there is no shared memory region 'region'"):
            client.get_system_shared_memory_status("region")
        client.unregister_cuda_shared_memory()
        client.unregister_cuda_shared_memory("region")
        assert not client.get_cuda_shared_memory_status().regions
        with pytest.raises(InferenceServerException, match="there is no CUDA shared memory region 'region'") as refusal:
            client.get_cuda_shared_memory_status("region")
        assert refusal.value.status() == "StatusCode.NOT_FOUND"
