//! The output of `kickcache --version`.

use std::sync::LazyLock;

use kickcache_engine::format::version::FORMAT_VERSION;

/// `None` if the program was built outside of a git checkout.
pub(super) const COMMIT: Option<&str> = option_env!("KICKCACHE_COMMIT");

static LONG: LazyLock<String> = LazyLock::new(text);

pub(super) fn long() -> &'static str {
    &LONG
}

fn text() -> String {
    let commit = match COMMIT {
        Some(commit) => format!("commit {commit}"),
        None => "built outside of a git checkout".to_owned(),
    };
    format!(
        "{}\n{commit}\nfront ends: NBD, vhost-user-blk, ublk\norigins: file, block device, NBD export\n\
         devices: io_uring, or a pool of threads\nformat of cache devices: {FORMAT_VERSION}",
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_version_alone() {
        let text = long();
        assert_eq!(text.lines().next(), Some(env!("CARGO_PKG_VERSION")));
        assert!(text.ends_with(&format!("format of cache devices: {FORMAT_VERSION}")), "{text}");
    }
}
