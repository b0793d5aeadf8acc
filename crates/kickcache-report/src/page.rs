//! The frame that all pages share.

use crate::html::escape;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The body is HTML and the data is JSON; the title and the introduction are escaped.
pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    pub(crate) introduction: &'a str,
    pub(crate) body: &'a str,
    pub(crate) data: &'a str,
}

impl Page<'_> {
    pub(crate) fn html(&self) -> String {
        let (title, introduction) = (escape(self.title), escape(self.introduction));
        let (body, data) = (self.body, self.data);
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
