//! The page of `kickcache simulate trace`.

use kickcache_engine::units::BLOCK_SIZE;
use kickcache_model::reference_policy;
use kickcache_report::{Curve, Curves, TraceCurves};
use kickcache_units::{show_bytes, show_count};

use crate::cli::simulate::finding::{Finding, SurveyedTrace};

const INTRODUCTION: &str = "The hit ratio of caches of several sizes. kickcache is the real engine on devices that take no time; it \
fills single blocks, or (wide) the extents of its adaptive fill window. The others keep single blocks \
without segments, headers or copies. They neither write nor waste space for those, an advantage that no \
log has. Write amplification: bytes written to the cache device for each byte that entered the cache. \
Origin bytes, wide: bytes read from the origin with the wide window, divided by those with single blocks.";

pub(crate) fn page(traces: &[SurveyedTrace], findings: &[Finding]) -> String {
    let curves = |(index, trace): (usize, &SurveyedTrace)| {
        let mut own: Vec<&Finding> = findings.iter().filter(|finding| finding.trace == index).collect();
        own.sort_by_key(|finding| finding.cache_blocks);
        of_trace(trace, &own)
    };
    let traces = traces.iter().enumerate().map(curves).collect();
    Curves { title: "Hit ratio by cache size", introduction: INTRODUCTION, traces }.html()
}

fn of_trace(trace: &SurveyedTrace, findings: &[&Finding]) -> TraceCurves {
    let survey = &trace.survey;
    let footprint_bytes = survey.footprint * BLOCK_SIZE;
    let hits = |misses: &dyn Fn(&Finding) -> f64| {
        findings.iter().map(|finding| 1.0 - misses(finding)).collect::<Vec<f64>>()
    };
    let exact = hits(&|finding| finding.exact.miss_ratio());
    let adaptive = hits(&|finding| finding.adaptive.miss_ratio());
    let mut curves = vec![
        Curve { name: "kickcache".into(), is_main: true, hit_ratios: exact },
        Curve { name: "kickcache (wide)".into(), is_main: true, hit_ratios: adaptive },
    ];
    curves.extend(reference_policy::NAMES.into_iter().enumerate().map(|(index, name)| {
        let hit_ratios = hits(&|finding| finding.reference_policies[index].miss_ratio());
        Curve { name: name.into(), is_main: false, hit_ratios }
    }));
    TraceCurves {
        name: trace.name.clone(),
        note: format!(
            "{} reads and {} writes; they touch {} blocks of 4 KiB, {} different ones ({}).",
            show_count(survey.reads),
            show_count(survey.writes),
            show_count(survey.touches),
            show_count(survey.footprint),
            show_bytes(footprint_bytes)
        ),
        footprint_bytes,
        sizes: findings.iter().map(|finding| finding.cache_blocks * BLOCK_SIZE).collect(),
        curves,
        written_per_byte: findings.iter().map(|finding| finding.exact.written_per_byte()).collect(),
        origin_factor: findings.iter().map(|finding| finding.origin_factor()).collect(),
    }
}
