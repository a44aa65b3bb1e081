"""
Which names of attributes and metrics the OpenTelemetry project has published: those of its package `opentelemetry-semantic-conventions`,
which keeps the older names as well, and those that are newer than the package.
"""

import importlib
import pathlib

import opentelemetry.semconv

# The GenAI conventions have moved to https://github.com/open-telemetry/semantic-conventions-genai, and no package is made from there yet: the
# one of PyPI has them as they were in version 1.41. These have come since then (docs/gen-ai/non-normative/migration.md). One that a later
# package has must leave these lists: the test says so.
newer_attributes = {
    "gen_ai.token.modality": "usage counters tell tokens of text, images and audio apart (#374)",
    "gen_ai.usage.cache_write.input_tokens": "was gen_ai.usage.cache_creation.input_tokens (#440)",
}
newer_metrics = {
    "gen_ai.client.embeddings.duration": "was gen_ai.client.operation.duration (client-embeddings.md)",
    "gen_ai.client.embeddings.operation.input_tokens": "was gen_ai.client.token.usage (client-embeddings.md)",
    "gen_ai.client.inference.duration": "was gen_ai.client.operation.duration (#521)",
    "gen_ai.client.inference.operation.input_tokens": "was gen_ai.client.token.usage (#374)",
    "gen_ai.client.inference.operation.output_tokens": "was gen_ai.client.token.usage (#374)",
    "gen_ai.client.inference.time_to_first_chunk": "was gen_ai.client.operation.time_to_first_chunk (#521)",
    "gen_ai.client.inference.usage.cache_read.input_tokens": "is new (#374)",
    "gen_ai.client.inference.usage.cache_write.input_tokens": "is new (#374)",
    "gen_ai.client.inference.usage.input_tokens": "was gen_ai.client.token.usage (#374)",
    "gen_ai.client.inference.usage.output_tokens": "was gen_ai.client.token.usage (#374)",
    "gen_ai.client.inference.usage.reasoning.output_tokens": "is new (#374)",
}

# Ours: attributes under a namespace of our own, and metrics whose names and labels are those that Prometheus is shown.
own_attributes = "sluice."
own_metrics = ("sluice_", "process_")


def published(kind):
    """The names of all `attributes`, or of all `metrics`, whether stable or in development."""
    names = set()
    # Most folders of the package have no `__init__.py`, so that its modules are found by their files.
    [folder] = opentelemetry.semconv.__path__
    for file in pathlib.Path(folder).rglob(f"{kind}/*.py"):
        module = ".".join(file.relative_to(folder).with_suffix("").parts)
        constants = vars(importlib.import_module(f"opentelemetry.semconv.{module}"))
        names |= {value for name, value in constants.items() if name.isupper() and isinstance(value, str)}
    return names


def foreign(attributes, metrics):
    """Those of the names that claim to be of the conventions, and that the package has not."""
    attributes = {name for name in attributes if not name.startswith(own_attributes)}
    metrics = {name for name in metrics if not name.startswith(own_metrics)}
    return attributes - published("attributes"), metrics - published("metrics")


def names_in_traces(request):
    for one in request.resource_spans:
        yield from (attribute.key for attribute in one.resource.attributes)
        for span in [span for scoped in one.scope_spans for span in scoped.spans]:
            yield from (attribute.key for attribute in span.attributes)


def names_in_metrics(request):
    """The names of the metrics, and those of the attributes of all that are not our own."""
    metrics, attributes = set(), set()
    for one in request.resource_metrics:
        attributes |= {attribute.key for attribute in one.resource.attributes}
        for metric in [metric for scoped in one.scope_metrics for metric in scoped.metrics]:
            metrics.add(metric.name)
            if not metric.name.startswith(own_metrics):
                points = getattr(metric, metric.WhichOneof("data")).data_points
                attributes |= {attribute.key for point in points for attribute in point.attributes}
    return metrics, attributes
