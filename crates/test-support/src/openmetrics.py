"""Parses an OpenMetrics text with Prometheus' own client library; writes the name, the type and the
number of samples of each family."""
import sys

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    sys.exit(77)

for family in text_string_to_metric_families(sys.stdin.read()):
    print(family.name, family.type, len(family.samples))
