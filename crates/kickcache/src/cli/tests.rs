//! The command line as a whole: help texts, and sentences for bad arguments.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use clap::{CommandFactory, Parser};
use expect_test::{expect, expect_file};

use super::{Cli, Command};

fn help(name: &str) -> String {
    let mut command = Cli::command().term_width(100);
    command.build();
    let found = if name.is_empty() { Some(&mut command) } else { command.find_subcommand_mut(name) };
    found.unwrap().render_long_help().to_string()
}

#[test]
fn the_command_line_contradicts_itself_nowhere() {
    Cli::command().debug_assert();
}

#[test]
fn help_matches_the_reviewed_text() {
    let names = [
        "",
        "format",
        "serve",
        "status",
        "check-config",
        "top",
        "mode",
        "pause-caching",
        "drain",
        "reload",
        "add",
        "remove",
        "resize",
        "grow",
        "leave-out",
        "replace",
        "record",
        "stop",
        "inspect",
        "check",
        "dump",
        "detach",
        "ublk",
        "demo",
        "bench",
        "report",
        "simulate",
        "advise",
        "judge",
        "trace",
        "completions",
        "man",
    ];
    let all: Vec<String> = names.iter().map(|name| help(name)).collect();
    expect_file!["help.txt"].assert_eq(&all.join("\n----------\n\n"));
}

/// From clap or from the plan.
fn fault(line: &str) -> String {
    let args = line.split(' ').filter(|word| !word.is_empty()).map(|word| word.replace('_', " "));
    match Cli::try_parse_from(std::iter::once("kickcache".to_owned()).chain(args)) {
        Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        Ok(Cli { command: Command::Serve(args) }) => match args.plan() {
            Err(failure) => format!("{} ({:?})", failure.error, failure.exit),
            Ok(_) => "fine".into(),
        },
        Ok(_) => "fine".into(),
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of bad command lines")]
fn bad_arguments_are_refused_with_a_sentence() {
    let long = format!("serve --cache /c --origin /o --nbd unix:/{}", "p".repeat(107));
    let lines = [
        "fly",
        "format",
        "format /c --size 0",
        "format /c --size -1",
        "format /c --size 1e3",
        "format /c --size 10_gb",
        "format /c --size 10000000",
        "format /c --size 16777216T",
        "format /c --size 16T",
        "format /c --size 10GiB",
        "serve",
        "serve --cache /c",
        "serve --origin /o",
        "serve --config /nowhere.toml --cache /c",
        "serve --config /nowhere.toml --mode bypass",
        "serve --config /nowhere.toml",
        "serve --cache /c --origin /o --mode write-backwards",
        "serve --cache /c --origin /c",
        "serve --cache /c --origin /",
        "serve --cache /c --origin /o --name x/y",
        "serve --cache /c --origin /o --nbd /run/x",
        "serve --cache /c --origin /o --nbd tcp:0.0.0.0:1",
        "serve --cache /c --origin /o --nbd tcp:0.0.0.0:1 --insecure-tcp",
        "serve --config /nowhere.toml --fill-window-max 4K",
        "serve --cache /c --origin /o --nbd unix:/x --nbd unix:/x",
        "serve --cache /c --origin /o --nbd unix:/x --control /x",
        "serve --cache /c --origin /o --sequential-cutoff 0",
        "serve --cache /c --origin /o --sequential-cutoff no",
        "serve --cache /c --origin /o --fill-window-max 3K",
        "serve --cache /c --origin /o --admission some",
        "serve --cache /c --origin /o --io-engine aio",
        "serve --cache /c --origin /o --origin-changed",
        "serve --cache /c --origin /o --origin-changed=v",
        "serve --cache /c --origin /o --without-cache",
        "serve --cache /c --origin /o --without-cache=/d",
        "add --cache /c --origin /o --origin-moved=v",
        &long,
        "mode vm1",
        "mode vm1 write-through-it",
        "drain",
        "status --watch 0",
        "status --watch soon",
        "status --watch 0.5",
        "inspect",
        "completions tcsh",
    ];
    let found: String = lines.iter().map(|line| format!("{line}\n    {}\n", fault(line))).collect();
    expect![[r#"
        fly
            error: unrecognized subcommand 'fly'
        format
            error: the following required arguments were not provided:
        format /c --size 0
            error: invalid value '0' for '--size <SIZE>': a cache file of 0 bytes is not possible: it needs 8 MiB to 15 TiB
        format /c --size -1
            error: invalid value '-1' for '--size <SIZE>': `-1` is negative; a size is a number of bytes, such as 512M or 10G
        format /c --size 1e3
            error: invalid value '1e3' for '--size <SIZE>': `1e3` is not a size; write a number with K, M, G or T, such as 512M or 10G
        format /c --size 10_gb
            error: invalid value '10 gb' for '--size <SIZE>': `10 gb` has a space in it; write the number and its unit together, such as 10GB
        format /c --size 10000000
            fine
        format /c --size 16777216T
            error: invalid value '16777216T' for '--size <SIZE>': `16777216T` is larger than any device: a size must be below 16777216T
        format /c --size 16T
            error: invalid value '16T' for '--size <SIZE>': a cache file of 17592186044416 bytes is not possible: it needs 8 MiB to 15 TiB
        format /c --size 10GiB
            fine
        serve
            error: the following required arguments were not provided:
        serve --cache /c
            error: the following required arguments were not provided:
        serve --origin /o
            error: the following required arguments were not provided:
        serve --config /nowhere.toml --cache /c
            error: the argument '--config <FILE>' cannot be used with '--cache <CACHE>'
        serve --config /nowhere.toml --mode bypass
            error: the argument '--config <FILE>' cannot be used with '--mode <MODE>'
        serve --config /nowhere.toml
            the configuration file /nowhere.toml cannot be read (Usage)
        serve --cache /c --origin /o --mode write-backwards
            error: invalid value 'write-backwards' for '--mode <MODE>'
        serve --cache /c --origin /c
            /c is named twice, as a cache device and as the origin of `c`; each device can have one part only (Usage)
        serve --cache /c --origin /
            the origin / gives no name for its volume; add --name NAME (Usage)
        serve --cache /c --origin /o --name x/y
            the volume name `x/y` cannot be used: it contains '/'; letters, digits and - _ . + @ : are possible (Usage)
        serve --cache /c --origin /o --nbd /run/x
            error: invalid value '/run/x' for '--nbd <ADDRESS>': `/run/x` is not an NBD address; write unix:PATH or tcp:HOST:PORT
        serve --cache /c --origin /o --nbd tcp:0.0.0.0:1
            tcp:0.0.0.0:1 can be reached from other machines, and NBD has neither encryption nor a password here; use a unix socket or a loopback address, TLS with certificates of clients (--tls=require, docs/how-to/tls.md), or accept it with --insecure-tcp (insecure-tcp = true) (Usage)
        serve --cache /c --origin /o --nbd tcp:0.0.0.0:1 --insecure-tcp
            fine
        serve --config /nowhere.toml --fill-window-max 4K
            error: the argument '--config <FILE>' cannot be used with '--fill-window-max <SIZE>'
        serve --cache /c --origin /o --nbd unix:/x --nbd unix:/x
            the volume `o` listens on unix:/x twice; once is enough (Usage)
        serve --cache /c --origin /o --nbd unix:/x --control /x
            the volume `o` listens on the path of the control socket; choose another path for either (Usage)
        serve --cache /c --origin /o --sequential-cutoff 0
            error: invalid value '0' for '--sequential-cutoff <SIZE>': a cut-off of 0 would bypass every read; write `off` to cache streams too
        serve --cache /c --origin /o --sequential-cutoff no
            error: invalid value 'no' for '--sequential-cutoff <SIZE>': `no` is not a size; write a number with K, M, G or T, such as 512M or 10G, or `auto` or `off`
        serve --cache /c --origin /o --fill-window-max 3K
            error: invalid value '3K' for '--fill-window-max <SIZE>': a fill window of 3072 bytes is not possible; write a power of two from 4K to 1M, such as 64K
        serve --cache /c --origin /o --admission some
            error: invalid value 'some' for '--admission <ADMISSION>'
        serve --cache /c --origin /o --io-engine aio
            error: invalid value 'aio' for '--io-engine <IO_ENGINE>'
        serve --cache /c --origin /o --origin-changed
            fine
        serve --cache /c --origin /o --origin-changed=v
            --origin-changed names the volume `v`; there is only o (Usage)
        serve --cache /c --origin /o --without-cache
            fine
        serve --cache /c --origin /o --without-cache=/d
            --without-cache names /d; there is only /c (Usage)
        add --cache /c --origin /o --origin-moved=v
            fine
        serve --cache /c --origin /o --nbd unix:/ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp
            error: invalid value 'unix:/ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp' for '--nbd <ADDRESS>': the socket path `/ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp` has 108 bytes, a unix socket takes at most 107; choose a shorter one
        mode vm1
            fine
        mode vm1 write-through-it
            error: invalid value 'write-through-it' for '[MODE]'
        drain
            error: the following required arguments were not provided:
        status --watch 0
            error: invalid value '0' for '--watch [<TIME>]': `0` is not from 0.1s to 1d
        status --watch soon
            error: invalid value 'soon' for '--watch [<TIME>]': `soon` is not a time; write a number with ms, s, m, h or d, such as 90s or 1h, from 0.1s to 1d
        status --watch 0.5
            fine
        inspect
            error: the following required arguments were not provided:
        completions tcsh
            error: invalid value 'tcsh' for '<SHELL>'
    "#]].assert_eq(&found);
}

#[test]
fn an_origin_with_a_binary_name_is_refused() {
    let origin = OsStr::from_bytes(b"/srv/\xff");
    let args = [OsStr::new("kickcache"), OsStr::new("serve"), OsStr::new("--cache"), OsStr::new("/c")];
    let args = args.into_iter().chain([OsStr::new("--origin"), origin]);
    let refused = Cli::try_parse_from(args).unwrap_err().to_string();
    assert!(refused.contains("`/srv/\\xFF` is not UTF-8"), "{refused}");
}
