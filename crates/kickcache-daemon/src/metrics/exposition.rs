//! The text of a scrape, in one of two formats.

use std::fmt;

use kickcache_units::printable::printable_line;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text, text};
use prometheus_client::registry::Registry;

use crate::latency::{BOUNDS_MICROS, LatencyHistogram};
use crate::metrics::family::{Family, Labelled, Labels, Subject, Values};
use crate::metrics::scrape::Scrape;
use crate::metrics::{caches, daemon, volumes};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Format {
    /// The text format of Prometheus, version 0.0.4.
    #[default]
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => prometheus_text::CONTENT_TYPE,
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

pub(super) fn exposition(scrape: Scrape, format: Format) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scraped(scrape)));
    let mut text = String::new();
    let written = match format {
        Format::Prometheus => prometheus_text::encode(&mut text, &registry),
        Format::OpenMetrics => text::encode(&mut text, &registry),
    };
    written.expect("writing to a string cannot fail");
    text
}

#[derive(Debug)]
struct Scraped(Scrape);

impl Collector for Scraped {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Scraped(scrape) = self;
        let of_volumes: Vec<_> = scrape.report.caches.iter().flat_map(|cache| &cache.volumes).collect();
        let of_caches: Vec<_> = scrape.report.caches.iter().collect();
        encode(&mut encoder, daemon::FAMILIES, &[scrape])?;
        encode(&mut encoder, caches::FAMILIES, &of_caches)?;
        encode(&mut encoder, volumes::FAMILIES, &of_volumes)
    }
}

fn encode<T: Subject>(
    encoder: &mut DescriptorEncoder<'_>,
    families: &[Family<T>],
    subjects: &[&T],
) -> fmt::Result {
    let labelled: Vec<(Labels, &T)> =
        subjects.iter().map(|subject| (shown(subject.labels()), *subject)).collect();
    for family in families {
        let metric_type = family.values.metric_type();
        let mut metric = encoder.encode_descriptor(family.name, family.help, None, metric_type)?;
        for (labels, subject) in &labelled {
            encode_values(&mut metric, &family.values, labels, subject)?;
        }
    }
    Ok(())
}

fn encode_values<T>(
    metric: &mut MetricEncoder<'_>,
    values: &Values<T>,
    own: &Labels,
    subject: &T,
) -> fmt::Result {
    let with = |more: Labels| own.iter().cloned().chain(shown(more)).collect::<Labels>();
    match values {
        Values::Counter(value) => counter(metric, own, value(subject)),
        Values::Counters(values) => values(subject)
            .into_iter()
            .try_for_each(|Labelled { labels, value }| counter(metric, &with(labels), value)),
        Values::Gauge(value) => metric.encode_family(own)?.encode_gauge(&value(subject)),
        Values::Count(value) => metric.encode_family(own)?.encode_gauge(&value(subject)),
        Values::Flag(value) => metric.encode_family(own)?.encode_gauge(&u64::from(value(subject))),
        Values::Gauges(values) => values(subject).into_iter().try_for_each(|Labelled { labels, value }| {
            metric.encode_family(&with(labels))?.encode_gauge(&value)
        }),
        Values::Histograms(values) => values(subject)
            .into_iter()
            .try_for_each(|Labelled { labels, value }| histogram(metric, &with(labels), &value)),
        Values::Info(labels) => metric.encode_family(own)?.encode_info(&shown(labels(subject))),
    }
}

/// Labels without control characters: a scrape is shown on terminals and pages of others.
fn shown(labels: Labels) -> Labels {
    labels.into_iter().map(|(name, value)| (name, printable_line(&value).into())).collect()
}

fn counter(metric: &mut MetricEncoder<'_>, labels: &Labels, value: u64) -> fmt::Result {
    metric.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn histogram(metric: &mut MetricEncoder<'_>, labels: &Labels, found: &LatencyHistogram) -> fmt::Result {
    let bounds = BOUNDS_MICROS.iter().map(|micros| *micros as f64 / 1e6).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(found.counts).collect();
    let seconds = found.total_nanos as f64 / 1e9;
    metric.encode_family(labels)?.encode_histogram::<NoLabelSet>(seconds, found.count(), &buckets, None)
}
