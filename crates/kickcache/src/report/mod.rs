//! A report: runs side by side in one HTML page that needs nothing else, neither network nor program.
//!
//! The charts are drawn here as SVG, each in a wide and a narrow form, so that the page is right on a desk, on a phone,
//! on paper and without JavaScript; a few lines of script add what a pointer can ask for. The figures
//! of the runs are in the page too, as JSON.

mod charts;
mod facts;
mod html;
mod plot;
mod summary;

use kickcache_sim::result::RunResult;

use crate::report::html::escape;

/// Runs to be compared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Report<'a> {
    /// What the page is about.
    pub title: &'a str,
    /// What was run, in a sentence or two.
    pub introduction: &'a str,
    /// The runs; ratios are to the first one unless the reader chooses another.
    pub runs: &'a [RunResult],
}

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

impl Report<'_> {
    /// The page.
    pub fn html(&self) -> String {
        let title = escape(self.title);
        let introduction = escape(self.introduction);
        let parts = [
            summary::table(self.runs),
            charts::overview(self.runs),
            charts::by_run(self.runs),
            charts::endurance(self.runs),
            facts::table(self.runs),
        ];
        let body: String = parts.concat();
        let data = html::json(self.runs);
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <header><h1>{title}</h1><p>{introduction}</p></header>\n<main>\n{body}</main>\n\
             <footer><p>Made by kickcache {version}. \
             <button type=\"button\" id=\"save\" hidden>Save the figures as JSON</button></p></footer>\n\
             <div id=\"tip\" role=\"status\" hidden></div>\n\
             <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{SCRIPT}</script>\n\
             </body>\n</html>\n"
        )
    }
}

#[cfg(test)]
mod tests;
