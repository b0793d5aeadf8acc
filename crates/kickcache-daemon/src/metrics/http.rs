//! The little of HTTP/1.1 that a scrape needs: requests without a body, whole responses.

use std::net::IpAddr;

use crate::metrics::exposition::Format;
use crate::metrics::live::document::Curves;

/// Longest request in bytes; a request is only a head.
pub(super) const REQUEST_MAX: usize = 8 << 10;
const HEADER_COUNT_MAX: usize = 64;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) asked: DocumentRequest,
    pub(super) host: Host,
    pub(super) body: Body,
    pub(super) format: Format,
    pub(super) after: ConnectionFate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DocumentRequest {
    Metrics,
    Page,
    History {
        /// Rows up to this second are left out.
        since: u64,
        curves: Curves,
    },
    Unknown,
    NotAllowed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Host {
    /// The host is an address, `localhost`, empty or not named.
    Own,
    /// Another name. Any name can be made to point to this machine, so that a browser would let a foreign
    /// page read the data here (DNS rebinding).
    Foreign,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Body {
    Sent,
    LeftOut,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ConnectionFate {
    GoOn,
    Close,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Parsed {
    /// The bytes are only the beginning of a request.
    Partial,
    /// A request of this many bytes.
    Complete { request: Request, length: usize },
    /// The bytes are no valid request; the connection ends with this status.
    Bad(Status),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    Good,
    BadRequest,
    Forbidden,
    NotFound,
    NotAllowed,
    TooLarge,
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Good => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::NotAllowed => "405 Method Not Allowed",
            Status::TooLarge => "431 Request Header Fields Too Large",
            Status::Unavailable => "503 Service Unavailable",
        }
    }
}

pub(super) fn parse(input: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; HEADER_COUNT_MAX];
    let mut found = httparse::Request::new(&mut headers);
    match found.parse(input) {
        Ok(httparse::Status::Partial) if input.len() < REQUEST_MAX => Parsed::Partial,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => Parsed::Bad(Status::TooLarge),
        Ok(httparse::Status::Complete(length)) if length > REQUEST_MAX => Parsed::Bad(Status::TooLarge),
        // A body would follow, and no accepted request has a body.
        Ok(httparse::Status::Complete(_)) if has_body(&found) => Parsed::Bad(Status::BadRequest),
        Ok(httparse::Status::Complete(length)) => match Target::of(found.path.unwrap_or_default()) {
            Some(target) => Parsed::Complete { request: request(&found, target), length },
            None => Parsed::Bad(Status::BadRequest),
        },
        Err(_) => Parsed::Bad(Status::BadRequest),
    }
}

fn has_body(found: &httparse::Request<'_, '_>) -> bool {
    let is_length = |value: &[u8]| value.trim_ascii() != b"0";
    values(found, "content-length").any(is_length) || values(found, "transfer-encoding").next().is_some()
}

/// The target of a request, in the origin form or in the absolute form of RFC 9112.
#[derive(Clone, Copy)]
struct Target<'a> {
    /// Host and port, in the absolute form.
    authority: Option<&'a str>,
    path: &'a str,
    query: &'a str,
}

impl Target<'_> {
    /// `None` for an absolute form without a host, or of another scheme than `http`.
    fn of(text: &str) -> Option<Target<'_>> {
        let text = text.split('#').next().unwrap_or_default();
        let (authority, rest) = match text.split_once("://") {
            Some((scheme, rest)) if !text.starts_with('/') => {
                let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
                let is_http = scheme.eq_ignore_ascii_case("http");
                (Some(Some(authority).filter(|authority| is_http && !authority.is_empty())?), rest)
            }
            Some(_) | None => (None, text),
        };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = if authority.is_some() && path.is_empty() { "/" } else { path };
        Some(Target { authority, path, query })
    }
}

fn request(found: &httparse::Request<'_, '_>, target: Target<'_>) -> Request {
    let Target { authority, path, query } = target;
    // RFC 9112, 3.2.2: the host of an absolute form counts, and the header does not.
    let is_own_host = match authority {
        Some(authority) => is_own(authority.as_bytes()),
        None => values(found, "host").all(is_own),
    };
    let method = found.method.unwrap_or_default();
    let asked = match (method, path) {
        ("GET" | "HEAD", "/metrics") => DocumentRequest::Metrics,
        ("GET" | "HEAD", "/") => DocumentRequest::Page,
        ("GET" | "HEAD", "/history.json") => history(query),
        ("GET" | "HEAD", _) => DocumentRequest::Unknown,
        (_, _) => DocumentRequest::NotAllowed,
    };
    let says = |word: &str| {
        let mut options = values(found, "connection").flat_map(|value| value.split(|byte| *byte == b','));
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
    };
    let is_kept = if found.version == Some(1) { !says("close") } else { says("keep-alive") };
    Request {
        asked,
        host: if is_own_host { Host::Own } else { Host::Foreign },
        body: if method == "HEAD" { Body::LeftOut } else { Body::Sent },
        format: preferred(values(found, "accept")),
        after: if is_kept { ConnectionFate::GoOn } else { ConnectionFate::Close },
    }
}

fn is_own(host: &[u8]) -> bool {
    let Ok(host) = str::from_utf8(host) else { return false };
    let host = host.trim();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        Some(_) | None => host,
    };
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    inner.is_empty() || inner.eq_ignore_ascii_case("localhost") || inner.parse::<IpAddr>().is_ok()
}

/// Unknown parameters are ignored.
fn history(query: &str) -> DocumentRequest {
    let value = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(key, value)| (key == name).then_some(value))
    };
    let since = value("since").and_then(|since| since.parse().ok()).unwrap_or(0);
    let curves = if value("curves") == Some("1") { Curves::Sent } else { Curves::LeftOut };
    DocumentRequest::History { since, curves }
}

fn values<'a>(found: &'a httparse::Request<'_, '_>, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let named = found.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    named.map(|header| header.value)
}

/// The format with the highest weight.
fn preferred<'a>(accepts: impl Iterator<Item = &'a [u8]>) -> Format {
    let (mut open_metrics, mut prometheus) = (0.0, 0.0_f64);
    for range in accepts.flat_map(|value| value.split(|byte| *byte == b',')) {
        let range = String::from_utf8_lossy(range).to_ascii_lowercase();
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.trim().parse::<f64>().ok());
        let weight = weight.unwrap_or(1.0);
        match kind {
            "application/openmetrics-text" => open_metrics = weight.max(open_metrics),
            "text/plain" | "text/*" | "*/*" => prometheus = weight.max(prometheus),
            _ => {}
        }
    }
    if open_metrics > 0.0 && open_metrics >= prometheus { Format::OpenMetrics } else { Format::Prometheus }
}

pub(super) struct Response<'a> {
    pub(super) status: Status,
    pub(super) content_type: &'a str,
    pub(super) policy: Option<&'a str>,
    pub(super) text: &'a str,
    pub(super) body: Body,
    pub(super) after: ConnectionFate,
}

impl Response<'_> {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let allow = if self.status == Status::NotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
        let close = match self.after {
            ConnectionFate::GoOn => "",
            ConnectionFate::Close => "Connection: close\r\n",
        };
        let policy =
            self.policy.map(|policy| format!("Content-Security-Policy: {policy}\r\n")).unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n\
             {policy}{allow}{close}\r\n",
            self.status.line(),
            self.content_type,
            self.text.len()
        );
        let mut bytes = head.into_bytes();
        match self.body {
            Body::Sent => bytes.extend_from_slice(self.text.as_bytes()),
            Body::LeftOut => {}
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Parsed {
        parse(text.as_bytes())
    }

    fn complete(text: &str) -> Request {
        match parsed(text) {
            Parsed::Complete { request, length } if length == text.len() => request,
            found => panic!("{text:?}: {found:?}"),
        }
    }

    #[test]
    fn requests_are_read_however_they_are_cut() {
        let text = "GET /metrics?x=1 HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
        for end in 0..text.len() {
            assert_eq!(parsed(&text[..end]), Parsed::Partial, "{end}");
        }
        let (asked, body) = (DocumentRequest::Metrics, Body::Sent);
        let (host, format, after) = (Host::Own, Format::Prometheus, ConnectionFate::GoOn);
        assert_eq!(complete(text), Request { asked, host, body, format, after });
        assert_eq!(complete("HEAD / HTTP/1.0\r\n\r\n").body, Body::LeftOut);
        assert_eq!(complete("GET /x HTTP/1.1\r\n\r\n").asked, DocumentRequest::Unknown);
        assert_eq!(complete("DELETE /metrics HTTP/1.1\r\n\r\n").asked, DocumentRequest::NotAllowed);
    }

    #[test]
    fn absolute_targets_name_a_path_and_a_host() {
        let request = |target: &str, host: &str| {
            let Request { asked, host, .. } =
                complete(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            (asked, host)
        };
        let since = |since| DocumentRequest::History { since, curves: Curves::LeftOut };
        for (target, asked) in [
            ("http://localhost/metrics", DocumentRequest::Metrics),
            ("HTTP://127.0.0.1:9469/metrics?x=1", DocumentRequest::Metrics),
            ("http://[::1]:9469/metrics#end", DocumentRequest::Metrics),
            ("http://localhost/", DocumentRequest::Page),
            ("http://localhost:9469", DocumentRequest::Page),
            ("http://localhost?since=3", DocumentRequest::Page),
            ("http://localhost/history.json?since=3", since(3)),
            ("http://localhost/other", DocumentRequest::Unknown),
            ("/x://localhost/metrics", DocumentRequest::Unknown),
        ] {
            assert_eq!(request(target, "localhost"), (asked, Host::Own), "{target}");
        }
        assert_eq!(request("http://localhost/metrics", "evil.example").1, Host::Own);
        for foreign in ["evil.example", "localhost.evil.example:9469", "localhost@evil.example"] {
            assert_eq!(
                request(&format!("http://{foreign}/metrics"), "localhost").1,
                Host::Foreign,
                "{foreign}"
            );
        }
        for bad in
            ["http:///metrics", "http://", "http://?x", "https://localhost/metrics", "ftp://localhost/"]
        {
            let text = format!("GET {bad} HTTP/1.1\r\n\r\n");
            assert_eq!(parsed(&text), Parsed::Bad(Status::BadRequest), "{bad}");
        }
    }

    #[test]
    fn public_names_that_may_point_here_are_distinguished() {
        let found = |host: &str| complete(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).host;
        for ours in
            ["localhost", "LOCALHOST:9469", "127.0.0.1", "127.0.0.1:9469", "[::1]:9469", "[::1]", "::1", ""]
        {
            assert_eq!(found(ours), Host::Own, "{ours}");
        }
        for other in [
            "evil.example",
            "evil.example:9469",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "\u{fc}",
        ] {
            assert_eq!(found(other), Host::Foreign, "{other}");
        }
        let twice = "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n";
        assert_eq!(complete(twice).host, Host::Foreign);
    }

    #[test]
    fn connections_are_kept_according_to_their_version() {
        let after = |version: &str, option: &str| {
            complete(&format!("GET / HTTP/{version}\r\nConnection: {option}\r\n\r\n")).after
        };
        assert_eq!(
            (after("1.1", "x"), after("1.1", "x, Close")),
            (ConnectionFate::GoOn, ConnectionFate::Close)
        );
        assert_eq!(
            (after("1.0", "x"), after("1.0", "keep-alive")),
            (ConnectionFate::Close, ConnectionFate::GoOn)
        );
    }

    #[test]
    fn the_client_chooses_the_format() {
        let format = |accept: &str| complete(&format!("GET / HTTP/1.1\r\nAccept: {accept}\r\n\r\n")).format;
        // The headers of Prometheus 2.42 and 3.5.
        let old = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                   text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let new = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                   application/openmetrics-text;version=0.0.1;q=0.5,\
                   text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!((format(old), format(new)), (Format::OpenMetrics, Format::OpenMetrics));
        for plain in ["*/*", "text/html", "text/plain, application/openmetrics-text;q=0.5", ""] {
            assert_eq!(format(plain), Format::Prometheus, "{plain}");
        }
    }

    #[test]
    fn invalid_requests_are_refused() {
        let large = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(REQUEST_MAX));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: a\r\n".repeat(HEADER_COUNT_MAX + 1));
        let cases = [
            ("\0", Status::BadRequest),
            ("GET / HTTP/9\r\n\r\n", Status::BadRequest),
            ("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", Status::BadRequest),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", Status::BadRequest),
            (&large, Status::TooLarge),
            (&large[..REQUEST_MAX], Status::TooLarge),
            (&many, Status::TooLarge),
        ];
        for (text, status) in cases {
            assert_eq!(parsed(text), Parsed::Bad(status), "{text:?}");
        }
    }
}
