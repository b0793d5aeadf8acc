//! A report: runs side by side in one self-contained HTML page, which needs a browser only, without a network.
//!
//! Invariants: a page is complete without JavaScript, on paper and on a phone.
//!
//! Start with [`Report`] (runs to be compared) or [`Collection`] (many runs).

mod answer;
mod by_size;
mod charts;
mod curves;
mod facts;
mod html;
mod look;
mod measure;
mod overview;
mod page;
mod plot;
mod repeated_runs;
mod summary;

use kickcache_model::result::RunResult;

pub use crate::curves::{Curve, Curves, TraceCurves};
pub use crate::overview::{Overview, OverviewRow};

use crate::html::{fold, json, section, unfolded};
use crate::page::Page;

/// Runs to be compared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Report<'a> {
    pub title: &'a str,
    /// The runs, in a sentence or two.
    pub introduction: &'a str,
    /// The runs; ratios are to the first one unless the reader chooses another. Runs that share a name and
    /// differ in their seed are shown as one.
    pub runs: &'a [RunResult],
}

impl Report<'_> {
    pub fn html(&self) -> String {
        let repeated = repeated_runs::fold(self.runs);
        let runs: Vec<RunResult> = repeated.iter().map(|known| known.run.clone()).collect();
        let body = [
            html::answer(&answer::shortened(&repeated)),
            summary::table(&repeated),
            by_size::section(&repeated),
            section("Side by side", &charts::side_by_side(&runs, 0)),
            charts::by_run(&runs),
            charts::endurance(&repeated),
            facts::table(&repeated),
        ]
        .concat();
        Page { title: self.title, introduction: self.introduction, body: &body, data: &json(&runs) }.html()
    }
}

/// The answer in words: a sentence for each run after the first; a single run gets a sentence on its own
/// results.
pub fn answer(runs: &[RunResult]) -> Vec<String> {
    answer::sentences(&repeated_runs::fold(runs))
}

/// As [`answer()`], shortened for the head of a page.
pub fn headline(runs: &[RunResult]) -> Vec<String> {
    answer::shortened(&repeated_runs::fold(runs))
}

/// Runs of a collection with common charts.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    pub title: String,
    /// Text above the charts; may be empty.
    pub note: String,
    /// Indexes of the group's runs in the collection.
    pub runs: Vec<usize>,
    /// Added to the styles of the group's runs: the first run has the colour of this column of an overview.
    pub first: usize,
}

/// Many runs: the answer, charts by size and tables of results, then the charts of groups.
#[derive(Clone, PartialEq, Debug)]
pub struct Collection<'a> {
    pub title: &'a str,
    /// The runs, in a sentence or two.
    pub introduction: &'a str,
    pub answer: &'a [String],
    /// Results, in rows; a row that names a group links to it.
    pub overviews: &'a [Overview],
    pub groups: &'a [Group],
    /// All runs, each once. Without runs, the page has the answer and the overviews.
    pub runs: &'a [RunResult],
}

impl Collection<'_> {
    pub fn html(&self) -> String {
        let repeated = repeated_runs::fold(self.runs);
        let runs: Vec<RunResult> = repeated.iter().map(|known| known.run.clone()).collect();
        let groups: String = (0..).zip(self.groups).map(|(index, group)| self.part(index, group)).collect();
        let charted = || {
            let groups = section("Side by side", &groups);
            [groups, charts::by_run(&runs), charts::endurance(&repeated), facts::table(&repeated)].concat()
        };
        let charts = if runs.is_empty() { String::new() } else { charted() };
        let head = [html::answer(self.answer), by_size::section(&repeated)].concat();
        let body = head + &self.overviews.iter().map(Overview::html).collect::<String>() + &charts;
        Page { title: self.title, introduction: self.introduction, body: &body, data: &json(&runs) }.html()
    }

    fn part(&self, index: usize, group: &Group) -> String {
        let meant: Vec<RunResult> = group.runs.iter().map(|run| self.runs[*run].clone()).collect();
        let runs: Vec<RunResult> =
            repeated_runs::fold(&meant).iter().map(|known| known.run.clone()).collect();
        let note = html::escape(&group.note);
        let body = format!(
            "<div id=\"{}\">\n<p class=\"note\">{note}</p>\n{}</div>\n",
            overview::anchor(index),
            charts::side_by_side(&runs, group.first)
        );
        let part = if index == 0 { unfolded } else { fold };
        part(&group.title, &body)
    }
}

#[cfg(test)]
mod tests;
