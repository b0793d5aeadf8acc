//! A metric: its name, its meaning, and its values for a subject.

use prometheus_client::metrics::MetricType;

use crate::latency::LatencyHistogram;

pub(super) type Labels = Vec<(&'static str, String)>;

pub(super) struct Family<T> {
    /// The name, without the ending for its type, such as `_total`.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) values: Values<T>,
}

/// The value of a metric for a subject, or several values with labels of their own.
pub(super) enum Values<T> {
    Counter(fn(&T) -> u64),
    Counters(fn(&T) -> Vec<Labelled<u64>>),
    Gauge(fn(&T) -> f64),
    Count(fn(&T) -> u64),
    /// 1 if a condition holds, otherwise 0.
    Flag(fn(&T) -> bool),
    Gauges(fn(&T) -> Vec<Labelled<f64>>),
    /// Requests by how long they took.
    Histograms(fn(&T) -> Vec<Labelled<LatencyHistogram>>),
    /// Text values: the labels.
    Info(fn(&T) -> Labels),
}

pub(super) struct Labelled<V> {
    pub(super) labels: Labels,
    pub(super) value: V,
}

pub(super) trait Subject {
    fn labels(&self) -> Labels;
}

impl<V> Labelled<V> {
    pub(super) fn one(name: &'static str, label: impl Into<String>, value: V) -> Labelled<V> {
        Labelled { labels: vec![(name, label.into())], value }
    }
}

/// One value without labels of its own, or none.
pub(super) fn perhaps(value: Option<f64>) -> Vec<Labelled<f64>> {
    value.map(|value| Labelled { labels: Labels::new(), value }).into_iter().collect()
}

impl<T> Values<T> {
    pub(super) fn metric_type(&self) -> MetricType {
        match self {
            Values::Counter(_) | Values::Counters(_) => MetricType::Counter,
            Values::Gauge(_) | Values::Count(_) | Values::Flag(_) | Values::Gauges(_) => MetricType::Gauge,
            Values::Histograms(_) => MetricType::Histogram,
            Values::Info(_) => MetricType::Info,
        }
    }
}
