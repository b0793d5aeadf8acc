//! The engine is built a second time with planted flaws. The gate's seeds, or as many again, must find each flaw.

use std::process::Command;

#[test]
fn every_planted_flaw_is_found() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--locked", "-p", "kickcache-faultsim", "--features", "mutants"]);
    command.args(["--bin", "kickcache-mutants"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.output().expect("cargo runs: it runs this test");
    let (table, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    eprintln!("{table}");
    assert!(output.status.success(), "{table}\n{errors}");
    assert!(table.lines().filter(|line| line.contains("found after")).count() >= 100, "{table}");
}
