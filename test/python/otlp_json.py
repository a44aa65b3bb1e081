"""The JSON of OTLP, for the libraries of protocol buffers."""

import base64


def with_bytes(value):
    """OTLP writes ids in hexadecimal, where the usual JSON of protocol buffers has base64."""
    if isinstance(value, list):
        return [with_bytes(one) for one in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {name: base64.b64encode(bytes.fromhex(one)).decode() if name in ids else with_bytes(one) for name, one in value.items()}
