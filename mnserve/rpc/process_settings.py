"""Settings that callers change, and each process that takes calls in keeps: log, traces, regions of shared memory."""

from __future__ import annotations

from mnserve.codec.shared_memory import Region, Regions
from mnserve.errors import InvalidRequestError, UnsupportedError
from mnserve.observability.log_settings import LogControl, LogValue
from mnserve.observability.trace_settings import TraceSettings
from mnserve.observability.tracing import Tracing
from mnserve.protocol import service_pb2 as pb


class ProcessSettings:
    """Changes the settings of this process.

    Args:
        regions: Shared memory of callers on this machine; None where it is not offered.
        log: Log settings that callers may change; None where they may not.
        tracing: Sends spans of requests; None where nothing is traced.
    """

    def __init__(self, regions: Regions | None, log: LogControl | None, tracing: Tracing | None) -> None:
        self._regions, self._log, self._tracing = regions, log, tracing

    def apply(self, method: str, message: bytes) -> None:
        """Makes a change that another process was asked for.

        Args:
            method: Name of the call.
            message: Its request.

        Raises:
            MnServeError: It cannot be made here.
        """
        if method == "SystemSharedMemoryRegister":
            self.register(pb.SystemSharedMemoryRegisterRequest.FromString(message))
        elif method == "SystemSharedMemoryUnregister":
            self.unregister(pb.SystemSharedMemoryUnregisterRequest.FromString(message))
        elif method == "LogSettings":
            self.change_log(pb.LogSettingsRequest.FromString(message))
        elif method == "TraceSetting":
            self.change_traces(pb.TraceSettingRequest.FromString(message), anew=False)
        else:
            raise UnsupportedError(f"the call {method} changes no settings of a process")

    def register(self, request: pb.SystemSharedMemoryRegisterRequest) -> None:
        """Registers a region of shared memory."""
        if self._regions is None:
            raise UnsupportedError(
                "shared memory is switched off; start the server with --shared-memory on, or send tensors as they are"
            )
        self._regions.register(
            Region(name=request.name, key=request.key, offset=request.offset, byte_size=request.byte_size)
        )

    def unregister(self, request: pb.SystemSharedMemoryUnregisterRequest) -> None:
        """Forgets a region, or all where no name is given."""
        if self._regions is not None:
            self._regions.unregister(request.name)

    def change_log(self, request: pb.LogSettingsRequest) -> LogControl:
        """Changes the log settings that a request names; returns all."""
        if self._log is None:
            raise UnsupportedError("log settings cannot be changed here; start the server with --log-level")
        self._log.change({name: _log_value(name, value) for name, value in request.settings.items()})
        return self._log

    def change_traces(self, request: pb.TraceSettingRequest, *, anew: bool = True) -> TraceSettings:
        """Changes the trace settings that a request names; returns all.

        Args:
            request: The request.
            anew: Begin to count traced requests anew.
        """
        if self._tracing is None:
            raise UnsupportedError("nothing is traced; start the server with --trace-endpoint http://COLLECTOR:4317")
        settings = self._tracing.settings
        settings.change(
            request.model_name, {name: setting.value for name, setting in request.settings.items()}, anew=anew
        )
        return settings


def _log_value(name: str, value: pb.LogSettingsRequest.SettingValue) -> LogValue:
    kind = value.WhichOneof("parameter_choice")
    if kind is None:
        raise InvalidRequestError(f"the log setting '{name[:64]}' comes without a value")
    content: LogValue = getattr(value, kind)
    return content
