//! Trials: whether two devices serve more than one, tested repeatedly with few requests.

use crate::time::{Duration, Instant};

/// Least nanoseconds of a counted span, unless the requests saved for a trial are spent earlier.
const SPAN: u64 = 300_000_000;
/// Nanoseconds without a backlog after which a span does not count.
const GAP: u64 = 1_000_000_000;
/// Nanoseconds without a backlog after which a proof is no longer valid.
const FORGET: u64 = 600_000_000_000;
/// One request in this many may be part of a trial.
const PART: u64 = 50;
/// A proven use of the origin is tested again after this many counted spans.
const SPANS: u32 = 50;
/// Most requests that are saved for trials.
const SAVED_MAX: u64 = 4_096;
/// The origin must raise the served work by more than this many percent to be used, and by more than this to stay in
/// use.
const TAKEN: u64 = 6;
const KEPT: u64 = 3;
/// Two spans are alike if in neither the rate of the cache device's work is this many percent or more below that of the
/// other.
const STEADY: u64 = 20;
/// The origin is used only if the cache device then still does more than this many percent of its work without the
/// origin.
const STILL: u64 = 70;

/// The requests of a volume's clients so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ServedLoad {
    pub(crate) requests: u64,
    /// Work of the requests, in the units of a load.
    pub(crate) work: u64,
    /// Work of the cache device for clients that ended.
    pub(crate) by_cache: u64,
}

impl ServedLoad {
    const fn since(self, before: ServedLoad) -> ServedLoad {
        ServedLoad {
            requests: self.requests - before.requests,
            work: self.work - before.work,
            by_cache: self.by_cache - before.by_cache,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Rate {
    served: ServedLoad,
    nanos: u64,
}

impl Rate {
    /// Whether the cache device did about as much work as in the other span.
    fn is_like(&self, other: &Rate) -> bool {
        let by_cache = |served: &ServedLoad| served.by_cache;
        self.exceeds(other, 100 - STEADY, by_cache) && other.exceeds(self, 100 - STEADY, by_cache)
    }

    /// Whether the selected work at this rate is more than this many percent of the selected work at the other rate.
    fn exceeds(&self, other: &Rate, percent: u64, of: impl Fn(&ServedLoad) -> u64) -> bool {
        let product = |one: &Rate, other: &Rate| u128::from(of(&one.served)) * u128::from(other.nanos);
        product(self, other) * 100 > product(other, self) * u128::from(percent)
    }
}

#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EndedSpan {
    now: Instant,
    served: ServedLoad,
    rate: Option<Rate>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TrialRule {
    Allowed,
    Forbidden,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Trials {
    /// The last trial showed that more is served with the origin.
    is_proven: bool,
    /// The present span uses the opposite setting.
    is_trial: bool,
    /// The begin of the counted part of the span.
    since: Instant,
    /// The work up to `since`.
    before: ServedLoad,
    /// Requests until the span began.
    asked: u64,
    /// The last span with the usual setting.
    usual: Option<Rate>,
    /// The time of the last backlog, and the requests until then.
    seen: Instant,
    seen_requests: u64,
    /// Saved requests that trials used, or that exceeded [`SAVED_MAX`].
    spent: u64,
    /// Counted spans since the last trial.
    spans: u32,
}

impl Trials {
    /// Whether the origin takes part at present.
    pub(crate) fn is_on(&self, now: Instant) -> bool {
        self.is_proven != (self.is_trial && now.since(self.seen).as_nanos() <= GAP)
    }

    pub(crate) const fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// Requests that a trial may take.
    fn saved(&self, requests: u64) -> u64 {
        (requests / PART).saturating_sub(self.spent)
    }

    /// There is a backlog. Returns the span if it is over.
    pub(crate) fn end_span(&mut self, now: Instant, served: ServedLoad) -> Option<EndedSpan> {
        let rested = now.since(self.seen).as_nanos();
        let requests = core::mem::replace(&mut self.seen_requests, served.requests);
        self.seen = now;
        if rested > GAP {
            self.is_proven &= rested <= FORGET;
            // Only requests up to the last backlog count as part of the trial.
            self.spend(requests);
            (self.is_trial, self.usual) = (false, None);
            return Some(EndedSpan { now, served, rate: None });
        }
        if now < self.since {
            self.before = served;
            return None;
        }
        let nanos = now.since(self.since).as_nanos();
        let is_spent = self.is_trial && served.requests - self.asked >= self.saved(served.requests);
        if nanos < SPAN && !is_spent {
            return None;
        }
        let rate = Rate { served: served.since(self.before), nanos };
        self.spend(served.requests);
        Some(EndedSpan { now, served, rate: Some(rate) })
    }

    fn spend(&mut self, requests: u64) {
        if self.is_trial {
            self.spent += (requests - self.asked).min(self.saved(requests));
        }
    }

    /// Begins the next span, which may be a trial. After a change, the span counts only after a backlog of this many
    /// nanoseconds is done, at most [`GAP`].
    pub(crate) fn begin_span(&mut self, span: EndedSpan, backlog: u64, trial: TrialRule) {
        let was_on = self.is_on(span.now);
        self.decide(&span, trial);
        let lead = if self.is_on(span.now) == was_on { 0 } else { backlog.min(GAP) };
        (self.since, self.before) = (span.now.plus(Duration::from_nanos(lead)), span.served);
        self.asked = span.served.requests;
    }

    fn decide(&mut self, span: &EndedSpan, trial: TrialRule) {
        let requests = span.served.requests;
        self.spent = self.spent.max((requests / PART).saturating_sub(SAVED_MAX));
        let Some(rate) = span.rate else { return };
        if self.is_trial {
            self.judge(&rate);
            (self.is_trial, self.usual, self.spans) = (false, None, 0);
            return;
        }
        self.spans += 1;
        // A trial needs two similar spans before it.
        let is_steady = self.usual.replace(rate).is_some_and(|before| before.is_like(&rate));
        // With the origin, twice as many requests may be served in a span.
        let needed = (2 * rate.served.requests).clamp(1, SAVED_MAX);
        let is_due = !self.is_proven || self.spans >= SPANS;
        self.is_trial = trial == TrialRule::Allowed && is_steady && is_due && self.saved(requests) >= needed;
    }

    fn judge(&mut self, rate: &Rate) {
        let Some(usual) = &self.usual else { return };
        let (with, without, more) = if self.is_proven { (usual, rate, KEPT) } else { (rate, usual, TAKEN) };
        self.is_proven = with.exceeds(without, 100 + more, |served| served.work)
            && with.exceeds(without, STILL, |served| served.by_cache);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(without: u64, with: u64, spans: u64) -> (u64, bool) {
        let (mut trials, mut served, mut on) = (Trials::default(), ServedLoad::default(), 0);
        for step in 0..spans * 50 {
            let now = Instant::ZERO.plus(Duration::from_millis(10 * step));
            let rate = if trials.is_on(now) { with } else { without };
            on += u64::from(trials.is_on(now));
            served.requests += rate;
            served.work += rate;
            served.by_cache += without.min(rate);
            if let Some(span) = trials.end_span(now, served) {
                trials.begin_span(span, 0, TrialRule::Allowed);
            }
        }
        (on / 50, trials.is_proven())
    }

    #[test]
    fn a_variant_that_serves_more_is_kept() {
        let (with_origin, is_proven) = run(100, 150, 400);
        assert!(is_proven && with_origin > 200, "{with_origin} of 400");
    }

    #[test]
    fn requests_without_a_backlog_are_no_part_of_a_trial() {
        let (mut trials, mut served) = (Trials::default(), ServedLoad::default());
        let mut pass = |trials: &mut Trials, millis: u64, requests: u64| {
            served.requests += requests;
            (served.work, served.by_cache) = (served.requests, served.requests);
            let now = Instant::ZERO.plus(Duration::from_millis(millis));
            if let Some(span) = trials.end_span(now, served) {
                trials.begin_span(span, 0, TrialRule::Allowed);
            }
            now
        };
        let ended = [(2_000, 2_000), (2_350, 10), (2_700, 10)]
            .map(|(at, requests)| pass(&mut trials, at, requests))[2];
        assert!(trials.is_on(ended), "the trial");
        assert!(!trials.is_on(ended.plus(Duration::from_millis(1_100))), "nobody looks at it any more");
        pass(&mut trials, 60_000, 100_000);
        assert_eq!(trials.saved(102_020), 102_020 / PART, "none of these was part of the trial");
    }

    #[test]
    fn a_variant_that_serves_no_more_gets_few_requests() {
        let (with_origin, is_proven) = run(100, 102, 400);
        assert!(!is_proven, "2 % more prove nothing");
        assert!(0 < with_origin && with_origin <= 400 / PART + 1, "{with_origin} of 400");
    }
}
