"""What telemetry writes, read by the parsers that Prometheus, OpenTelemetry and Standard Webhooks have published."""

import json
import pathlib
import subprocess

import conventions
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otlp_json import with_bytes
from prometheus_client.parser import text_string_to_metric_families
from standardwebhooks.webhooks import Webhook

root = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("telemetry")
    subprocess.run(["sh", root / "bin/bun", root / "test/python/telemetry-samples.ts", folder], check=True)
    return folder


def test_metrics_are_read_by_the_client_library_of_prometheus(samples):
    families = {family.name: family for family in text_string_to_metric_families((samples / "metrics.txt").read_text())}
    assert families["sluice_requests"].type == "counter"
    assert sum(sample.value for sample in families["sluice_requests"].samples) == 3
    models = {sample.labels["model"] for sample in families["sluice_requests"].samples}
    assert models == {"large", 'quote " backslash \\ newline \n end', "\U0001f600"}
    assert families["sluice_request_duration_seconds"].type == "histogram"


def test_traces_are_messages_of_the_published_protocol(samples):
    sent = with_bytes(json.loads((samples / "traces.json").read_text()))
    spans = json_format.ParseDict(sent, ExportTraceServiceRequest()).resource_spans[0].scope_spans[0].spans
    assert len(spans) == 9
    assert {span.trace_id.hex() for span in spans} == {"4bf92f3577b34da6a3ce929d0e0e4736"}
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano > 0 for span in spans)


def test_exported_metrics_are_messages_of_the_published_protocol(samples):
    sent = json.loads((samples / "metrics.json").read_text())
    metrics = json_format.ParseDict(sent, ExportMetricsServiceRequest()).resource_metrics[0].scope_metrics[0].metrics
    assert {metric.WhichOneof("data") for metric in metrics} == {"sum", "gauge", "histogram"}
    assert "gen_ai.client.inference.duration" in {metric.name for metric in metrics}


@pytest.mark.parametrize("version", ["latest", "1.41", "1.36"])
def test_names_are_those_of_the_published_conventions(samples, version):
    def sent(signal, kind):
        return json_format.ParseDict(with_bytes(json.loads((samples / f"{signal}-{version}.json").read_text())), kind())

    metrics, attributes = conventions.names_in_metrics(sent("metrics", ExportMetricsServiceRequest))
    attributes |= set(conventions.names_in_traces(sent("traces", ExportTraceServiceRequest)))
    assert {"gen_ai.operation.name", "server.address", "error.type", "http.response.status_code"} <= attributes
    newer = (set(conventions.newer_attributes), set(conventions.newer_metrics)) if version == "latest" else (set(), set())
    assert conventions.foreign(attributes, metrics) == newer


def test_webhooks_are_verified_by_the_library_of_the_standard(samples):
    sent = json.loads((samples / "webhook.json").read_text())
    assert Webhook(sent["secret"]).verify(sent["body"], sent["headers"]) == {"type": "cost.jump"}
    with pytest.raises(Exception):
        Webhook(sent["secret"]).verify(sent["body"] + " ", sent["headers"])
