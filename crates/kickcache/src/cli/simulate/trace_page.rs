//! The page of `kickcache simulate trace`.

use kickcache_engine::units::BLOCK_SIZE;
use kickcache_sim::yardstick;

use crate::cli::simulate::trace::{Finding, Surveyed};
use crate::cli::simulate::trace_table::origin_factor;
use crate::report::{Curve, Curves, TraceCurves};
use crate::units::show_bytes;

const INTRODUCTION: &str = "How often caches of several sizes would have had what was asked for. kickcache is the real \
engine on devices that take no time, bringing in single blocks, or (wide) what its adaptive fill window brings. The others \
keep single blocks without segments, headers or copies, so that what they need not write and waste is an advantage that no \
log has. Written/kept: bytes written to the cache device for each byte that entered the cache. Read, wide: bytes that the \
wide window read from the origin for each that single blocks read.";

/// The page.
pub(crate) fn page(traces: &[Surveyed], findings: &[Finding]) -> String {
    let curves = |(index, trace): (usize, &Surveyed)| {
        let mut own: Vec<&Finding> = findings.iter().filter(|finding| finding.trace == index).collect();
        own.sort_by_key(|finding| finding.cache_blocks);
        of_trace(trace, &own)
    };
    let traces = traces.iter().enumerate().map(curves).collect();
    Curves { title: "What a cache would hit", introduction: INTRODUCTION, traces }.html()
}

fn of_trace(trace: &Surveyed, findings: &[&Finding]) -> TraceCurves {
    let survey = &trace.survey;
    let footprint_bytes = survey.footprint * BLOCK_SIZE;
    let ratios = |missed: &dyn Fn(&Finding) -> (u64, u64)| {
        findings.iter().map(|finding| hit_ratio(missed(finding))).collect::<Vec<f64>>()
    };
    let exact = ratios(&|finding| (finding.exact.missed_blocks, finding.exact.touched_blocks));
    let adaptive = ratios(&|finding| (finding.adaptive.missed_blocks, finding.adaptive.touched_blocks));
    let mut curves = vec![
        Curve { name: "kickcache".into(), is_main: true, hit_ratios: exact },
        Curve { name: "kickcache, wide".into(), is_main: true, hit_ratios: adaptive },
    ];
    curves.extend(yardstick::NAMES.into_iter().enumerate().map(|(index, name)| {
        let of = |finding: &Finding| {
            (finding.yardsticks[index].missed_blocks, finding.yardsticks[index].touched_blocks)
        };
        Curve { name: name.into(), is_main: false, hit_ratios: ratios(&of) }
    }));
    TraceCurves {
        name: trace.name.clone(),
        note: format!(
            "{} reads and {} writes; they touch {} blocks of 4 KiB, {} different ones ({}).",
            survey.reads,
            survey.writes,
            survey.touches,
            survey.footprint,
            show_bytes(footprint_bytes)
        ),
        footprint_bytes,
        sizes: findings.iter().map(|finding| finding.cache_blocks * BLOCK_SIZE).collect(),
        curves,
        written_per_byte: findings.iter().map(|finding| finding.exact.written_per_byte()).collect(),
        origin_factor: findings.iter().map(|finding| origin_factor(finding)).collect(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a trace are far below 2^53")]
fn hit_ratio((missed, touched): (u64, u64)) -> f64 {
    1.0 - missed as f64 / touched.max(1) as f64
}
