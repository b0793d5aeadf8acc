//! Throws text at the configuration file.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Err(error) = kickcache_daemon::config::parse(std::path::Path::new("k.toml"), text) {
        assert!(!error.to_string().contains('\n'), "an error is one sentence");
    }
});
