//! Unusable command lines and configuration files are refused with one sentence.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;

use crate::bad_input::{Place, refused, unchanged};
use crate::need_kickcache;

#[test]
fn invalid_command_lines_are_refused() {
    need_kickcache!();
    let place = Place::new();
    let with = |extra: &[&str]| {
        let mut arguments = place.spec.arguments();
        arguments.extend(extra.iter().map(OsString::from));
        arguments
    };
    let long = format!("unix:/var/tmp/{}", "x".repeat(100));
    let cases: [(&str, Vec<OsString>); 22] = [
        ("no arguments", vec![]),
        ("an unknown subcommand", vec!["fly".into()]),
        ("serve without a cache", vec!["serve".into()]),
        ("serve without an origin", vec!["serve".into(), "--cache".into(), "/var/tmp/none".into()]),
        ("an unknown flag", with(&["--fast"])),
        ("a flag given twice", with(&["--mode", "bypass"])),
        ("a value missing", with(&["--nbd"])),
        ("an address of no kind", with(&["--nbd", "fish:1"])),
        ("a socket path too long", with(&["--nbd", &long])),
        ("an empty socket path", with(&["--nbd", "unix:"])),
        ("a port too large", with(&["--nbd", "tcp:127.0.0.1:70000"])),
        ("an address on all networks", with(&["--nbd", "tcp:0.0.0.0:0"])),
        ("a host that is not there", with(&["--nbd", "tcp:no.such.host.invalid:1"])),
        ("a socket in no folder", with(&["--nbd", "unix:/var/tmp/no such folder/x"])),
        ("a fill window of 3K", with(&["--fill-window-max", "3K"])),
        ("a fill window of 2M", with(&["--fill-window-max", "2M"])),
        ("a cut-off of 0", with(&["--sequential-cutoff", "0"])),
        ("an unknown admission", with(&["--admission", "never"])),
        ("an unknown engine", with(&["--io-engine", "steam"])),
        ("arguments too many", with(&["more"])),
        (
            "status of a daemon that is not there",
            vec!["status".into(), "--control".into(), place.spec.control().into()],
        ),
        ("inspecting a file that is not there", vec!["inspect".into(), "/var/tmp/no such file".into()]),
    ];
    refused(
        "a demo whose report cannot be written",
        &["demo", "-o", "/no/such/folder/x"].map(OsString::from),
    );
    for (what, arguments) in cases {
        unchanged(what, &[&place.spec.origin], || refused(what, &arguments));
    }
    bad_values(&place);
}

fn bad_values(place: &Place) {
    let replace = |flag: &str, value: OsString| {
        let mut arguments = place.spec.arguments();
        let at = arguments.iter().position(|argument| argument == flag).unwrap();
        arguments[at + 1] = value;
        arguments
    };
    let sizes = [
        "0",
        "-1",
        "1e3",
        "4095",
        "1M",
        "99999999999999999999999",
        "18446744073709551615",
        "16 Q",
        "",
        "0x100000",
        "1.5.2G",
    ];
    for size in sizes {
        refused(&format!("a size of {size:?}"), &replace("--size", size.into()));
    }
    for mode in ["", "writeback!", "Write-Back "] {
        refused(&format!("the mode {mode:?}"), &replace("--mode", mode.into()));
    }
    let long = "n".repeat(64);
    for name in ["", "a/b", "a b", "-v", ".", "a\nb", long.as_str()] {
        refused(&format!("the name {name:?}"), &replace("--name", name.into()));
    }
    let not_text = OsString::from_vec(vec![0xff, 0xfe]);
    refused("a name that is no text", &replace("--name", not_text.clone()));
    refused("a mode that is no text", &replace("--mode", not_text));
}

#[test]
fn invalid_configuration_files_are_refused() {
    need_kickcache!();
    let place = Place::new();
    let file = place.scratch.path("config.toml");
    let (cache, origin) = (place.spec.cache.display(), place.spec.origin.display());
    let control = place.spec.control();
    let control = control.display();
    let nbd = place.spec.socket();
    let nbd = nbd.display();
    let head = format!("control = \"{control}\"\n[[cache]]\ndevice = \"{cache}\"\nsize = \"16M\"\n");
    let volume = format!("[[cache.volume]]\nname = \"v\"\norigin = \"{origin}\"\nnbd = [\"unix:{nbd}\"]\n");
    let cases = [
        ("an empty file", String::new()),
        ("noise", "\u{1}\u{2}[[[".into()),
        ("no volume", head.clone()),
        ("an unknown key", format!("colour = \"red\"\n{head}{volume}")),
        ("an unknown key of a volume", format!("{head}{volume}colour = \"red\"\n")),
        ("a key given twice", format!("{head}{volume}name = \"w\"\n")),
        ("two volumes of one name", format!("{head}{volume}{volume}")),
        (
            "two volumes on one origin",
            format!("{head}{volume}{}", volume.replace("\"v\"", "\"w\"").replace("nbd.sock", "w.sock")),
        ),
        ("a mode of no kind", format!("{head}{volume}mode = \"fast\"\n")),
        ("a number for a name", format!("{head}{}", volume.replace("\"v\"", "7"))),
        ("the cache as origin", format!("{head}{}", volume.replace("/origin", "/cache"))),
        ("a size below the least", format!("{}{volume}", head.replace("16M", "1M"))),
        ("the control socket as address", format!("{head}{}", volume.replace("nbd.sock", "control.sock"))),
    ];
    for (what, content) in cases {
        fs::write(&file, content).unwrap();
        let arguments = ["serve".into(), "--config".into(), file.clone().into()];
        unchanged(what, &[&place.spec.origin, &file], || refused(what, &arguments));
        assert!(!place.spec.cache.exists(), "{what}: a cache was made");
    }
    fs::write(&file, [0xff, 0xfe, 0x00]).unwrap();
    refused("a file that is no text", &["serve".into(), "--config".into(), file.clone().into()]);
    refused("a file that is not there", &["serve".into(), "--config".into(), "/var/tmp/no such file".into()]);
    let mut both = place.spec.arguments();
    both.extend(["--config".into(), file.into()]);
    refused("a file and flags", &both);
}
