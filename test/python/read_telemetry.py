"""Says what the libraries of Prometheus, OpenTelemetry and Standard Webhooks read in what a gateway showed and sent, which comes as JSON."""

import json
import sys

import conventions
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otlp_json import with_bytes
from prometheus_client.parser import text_string_to_metric_families
from standardwebhooks.webhooks import Webhook


def spans(body):
    sent = json_format.ParseDict(with_bytes(json.loads(body)), ExportTraceServiceRequest())
    for span in [span for one in sent.resource_spans for scoped in one.scope_spans for span in scoped.spans]:
        names = sorted(attribute.key for attribute in span.attributes)
        yield [span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.name, span.kind, span.status.code, names]


def points(body):
    sent = json_format.ParseDict(json.loads(body), ExportMetricsServiceRequest())
    for metric in [metric for one in sent.resource_metrics for scoped in one.scope_metrics for metric in scoped.metrics]:
        kind = metric.WhichOneof("data")
        for point in getattr(metric, kind).data_points:
            yield [metric.name, kind, point.sum if kind == "histogram" else point.as_double, len(point.attributes)]


def unpublished(traces, exports):
    """The names that claim to be of the conventions, and are not."""
    attributes, metrics = set(), set()
    for body in traces:
        attributes |= set(conventions.names_in_traces(json_format.ParseDict(with_bytes(json.loads(body)), ExportTraceServiceRequest())))
    for body in exports:
        names, labels = conventions.names_in_metrics(json_format.ParseDict(json.loads(body), ExportMetricsServiceRequest()))
        attributes |= labels
        metrics |= names
    attributes, metrics = conventions.foreign(attributes, metrics)
    return sorted((attributes - conventions.newer_attributes.keys()) | (metrics - conventions.newer_metrics.keys()))


given = json.load(sys.stdin)
families = list(text_string_to_metric_families(given["metrics"]))
print(
    json.dumps(
        {
            "types": {family.name: family.type for family in families},
            "samples": [[one.name, one.labels, one.value] for family in families for one in family.samples],
            "spans": [span for body in given["traces"] for span in spans(body)],
            "points": [point for body in given["exports"] for point in points(body)],
            "unpublished": unpublished(given["traces"], given["exports"]),
            "notices": [Webhook(given["secret"]).verify(one["text"], one["headers"]) for one in given["webhooks"]],
        }
    )
)
